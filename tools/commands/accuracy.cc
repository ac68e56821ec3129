#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/accuracy/errors_report.h"
#include "tools/accuracy/tables/measured_tables.h"
#include "tools/accuracy/tables/own_runs.h"
#include "tools/cli/command.h"
#include "tools/cli/status_line.h"
#include "tools/commands/options/shared_options.h"
#include "tools/inputs/calibration_use.h"

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

ErrorsReport judged(const std::string& file, std::vector<MeasuredRun> runs, const Calibration* calibration,
                    StatusLine& status) {
  const std::size_t all = runs.size();
  return judge(file, std::move(runs), calibration, [&](std::size_t done) {
    if (!status.due()) return;
    status.show(Progress{fmt::format("{}: {} of at most {} runs predicted", file, done, all),
                         static_cast<double>(done) / static_cast<double>(all),
                         {}});
  });
}

std::vector<ErrorsReport> judged_tables(const std::string& path, const Calibration* calibration,
                                        const Streams& streams) {
  std::vector<ErrorsReport> reports;
  StatusLine status(streams);
  for (const std::filesystem::path& file : files_of(path)) {
    const MeasuredTable table = MeasuredTable::load(file.string());
    const std::string name = file.filename().string();
    if (auto runs = runs_of_table(name, table)) {
      reports.push_back(judged(name, std::move(*runs), calibration, status));
    } else {
      status.clear();
      streams.err << fmt::format("note: {} is left out, its columns are of no form that accuracy knows\n",
                                 file.string());
    }
  }
  if (reports.empty())
    throw InputError(
        fmt::format("{}: has no table that accuracy knows, allowed: CSV files with the columns {}, "
                    "or those that `pipesim help accuracy --all` names",
                    path, list_names(kColumnsOfOwnRuns)));
  return reports;
}

int run_accuracy(const Arguments& arguments, Streams& streams) {
  if (arguments.given("json") && arguments.given("markdown"))
    throw UsageError("accuracy: --json and --markdown exclude each other");
  std::optional<Calibration> calibration;
  if (arguments.has("calibration")) calibration = load_calibrations(arguments.text("calibration"));
  const std::vector<ErrorsReport> reports =
      judged_tables(required_text(arguments, "data"), pointer_to(calibration), streams);
  if (arguments.given("json")) {
    nlohmann::ordered_json tables = nlohmann::ordered_json::array();
    for (const ErrorsReport& report : reports) tables.push_back(json_of(report));
    give_document(streams, {{"tables", tables}});
    return 0;
  }
  for (const ErrorsReport& report : reports) {
    if (&report != &reports.front()) streams.out << "\n";
    streams.out << (arguments.given("markdown") ? to_markdown(report)
                                                : to_text(report, arguments.given("rows")));
  }
  return 0;
}

}  // namespace

Command accuracy_command() {
  Command c;
  c.name = "accuracy";
  c.summary = "compare predictions with tables of measured runs";
  c.description =
      "Reads tables of measured runs, predicts each run as simulate --recipe would, and prints by group "
      "how far the predictions are off (median, mean and bias of the relative error, and the worst one), "
      "with what the error goes, how well they order runs of the same workload, and whether verdicts on "
      "memory are right. Runs that pipesim can't express are counted with the reason.\n\nA table of your "
      "own runs is a CSV file whose first line names its columns. It must have model and devices (as "
      "--model and --topology take them), recipe, and batch (samples of an iteration). It may have time "
      "(of an iteration, \"372 ms\"), memory (the peak of the fullest device, \"59 GB\"), status (ok, or "
      "oom where memory was short; all else is a run that failed for another reason), name, and group "
      "(groups that errors are reported for, divided by semicolons).\n\nIt also knows the tables that "
      "docs/fidelity.md and docs/llm.md describe: megatron_golden.csv, llm_a100_single_node.csv, "
      "ultrascale_h100.csv, llm_training.csv, llm_foundry_mpt.csv, nemo_perf_history.csv, "
      "megatron_bridge_h100.csv, mlperf_gpt3.csv, pipeline_schedules.csv, torchtitan_perf.csv, "
      "internevo_7b_a100.csv, nccl_a100_h100.csv, nccl_v100_cube_mesh.csv and mist_interference_a100.csv, or "
      "others with their columns.";
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
  c.examples = {{"pipesim accuracy --data docs/examples --rows", "runs of Megatron-LM, each with its error"}};
  c.run = run_accuracy;
  return c;
}

}  // namespace pipesim
