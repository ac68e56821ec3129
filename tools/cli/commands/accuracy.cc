#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tools/analysis/accuracy/errors_report.h"
#include "tools/analysis/accuracy/tables/runs_table.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/searching/interrupt.h"
#include "tools/cli/searching/search_watch.h"
#include "tools/render/accuracy/errors_report_text.h"

namespace pipesim {
namespace {

// The CSV files of a folder, by name; or the one file.
std::vector<std::filesystem::path> files_of(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return {path};
  if (!std::filesystem::is_directory(path))
    throw InputError(fmt::format("{}: is no folder and no file", path));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Tells how far a table is, also within a run that takes long, and stops on Ctrl-C.
class AccuracyWatch {
 public:
  explicit AccuracyWatch(const Streams& streams)
      : status_(streams),
        interrupt_(streams.caller),
        until_(Deadline().with_stop([this] { return looked(); })),
        keep_(until_) {}

  void begin(const std::string& file, std::size_t runs) {
    file_ = file;
    runs_ = runs;
    done_ = 0;
  }
  void predicted(std::size_t done) {
    done_ = done;
    looked();
  }
  void clear() { status_.clear(); }
  [[nodiscard]] std::string now() const {
    return fmt::format("{}: {} of at most {} runs predicted", file_, done_.load(), runs_);
  }

 private:
  // Called by the threads that simulate.
  bool looked() {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && status_.due())
      status_.show(Progress{now(), static_cast<double>(done_) / static_cast<double>(runs_), {}});
    return interrupt_.requested();
  }

  StatusLine status_;
  Interrupt interrupt_;
  std::mutex mutex_;
  std::string file_;
  std::size_t runs_ = 1;
  std::atomic<std::size_t> done_ = 0;
  Deadline until_;
  KeepTo keep_;
};

ErrorsReport judged(const std::string& file, std::vector<MeasuredRun> runs, const Calibration* calibration,
                    AccuracyWatch& watch) {
  watch.begin(file, std::max<std::size_t>(1, runs.size()));
  return judge(file, std::move(runs), calibration, [&](std::size_t done) { watch.predicted(done); });
}

std::vector<ErrorsReport> judged_tables(const std::string& path, const Calibration* calibration,
                                        const Streams& streams, AccuracyWatch& watch) {
  std::vector<ErrorsReport> reports;
  const bool folder = std::filesystem::is_directory(path);
  for (const std::filesystem::path& file : files_of(path)) {
    const MeasuredTable table = MeasuredTable::load(file.string());
    if (const std::string reason = no_runs_table(table); folder && !reason.empty()) {
      watch.clear();
      streams.err << fmt::format("note: {} is left out, it {}\n", file.string(), reason);
      continue;
    }
    reports.push_back(judged(file.filename().string(), runs_of_table(table), calibration, watch));
  }
  watch.clear();
  if (reports.empty())
    throw InputError(
        fmt::format("{}: has no table of measured runs, allowed: CSV files as \"pipesim help "
                    "accuracy --all\" describes them",
                    path));
  return reports;
}

// Columns of this kind of row alone, or of several kinds, each with what it holds.
std::string columns_text(unsigned kinds) {
  std::string text;
  for (const RunsColumn& column : runs_columns()) {
    if (column.kinds == kinds)
      text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", column.name, column.holds);
  }
  return text;
}

std::string description() {
  const auto kind = [](RowKind k) { return static_cast<unsigned>(k); };
  const unsigned run = kind(RowKind::Run), collective = kind(RowKind::Collective),
                 mixture = kind(RowKind::Mixture);
  return fmt::format(
      "Reads tables of measured runs, predicts each run as simulate --recipe would, and prints by group "
      "how far the predictions are off (median, mean and bias of the relative error, and the worst one), "
      "with what the error goes, how well they order runs of the same workload, and whether verdicts on "
      "memory are right. Runs that pipesim can't express are counted with the reason.\n\nA table is a CSV "
      "file whose first line names its columns. A table of runs must have model, devices, recipe and batch, "
      "and may have others, which may be empty; a column that is not listed here is refused.\n\nColumns of "
      "any row: {}.\n\nColumns of runs: {}; {}.\n\nRows of collectives have the column devices, too, and: "
      "{}.\n\nRows of a product, a collective and copies that ran side by side have: {}.\n\nThe folder "
      "data/measured of the source has published runs in this form, with the scripts that made "
      "these tables from published ones.",
      columns_text(run | collective | mixture), columns_text(run | collective), columns_text(run),
      columns_text(collective), columns_text(mixture));
}

int run_accuracy(const Arguments& arguments, Streams& streams) {
  if (arguments.given("json") && arguments.given("markdown"))
    throw UsageError("accuracy: --json and --markdown exclude each other");
  std::optional<Calibration> calibration;
  if (arguments.has("calibration")) calibration = load_calibrations(arguments.text("calibration"));
  const std::string data = required_text(arguments, "data");
  std::vector<ErrorsReport> reports;
  AccuracyWatch watch(streams);
  try {
    reports = judged_tables(data, pointer_to(calibration), streams, watch);
  } catch (const OutOfTime&) {
    watch.clear();
    streams.err << fmt::format("pipesim: interrupted, {}\n", watch.now());
    return kInterruptedStatus;
  }
  if (arguments.given("json")) {
    nlohmann::ordered_json tables = nlohmann::ordered_json::array();
    for (const ErrorsReport& report : reports) tables.push_back(json_of(report));
    give_document(streams, {{"tables", tables}});
    return 0;
  }
  for (const ErrorsReport& report : reports) {
    if (&report != &reports.front()) streams.out << "\n";
    if (!arguments.given("markdown")) {
      streams.out << to_text(report, arguments.given("rows"));
      continue;
    }
    if (reports.size() > 1) streams.out << fmt::format("### {}\n\n", report.table);
    streams.out << to_markdown(report);
  }
  return 0;
}

}  // namespace

Command accuracy_command() {
  Command c;
  c.name = "accuracy";
  c.summary = "compare predictions with tables of measured runs";
  c.description = description();
  c.options = {{"data", "PATH", "", "the folder of the tables, or one of them"},
               calibration_option(),
               {.name = "rows",
                .argument = "",
                .default_value = "",
                .help = "print each run, too",
                .group = OptionGroup::Output},
               {.name = "markdown",
                .argument = "",
                .default_value = "",
                .help = "print the tables for a document",
                .group = OptionGroup::Output},
               json_option()};
  c.examples = {{"pipesim accuracy --data docs/examples --rows",
                 "runs of Megatron-LM and PyTorch, each with its error"}};
  c.run = run_accuracy;
  return c;
}

}  // namespace pipesim
