#include "tools/commands/calibrate_runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/accuracy/tables/measured_tables.h"
#include "tools/cli/status_line.h"
#include "tools/fitting/fit_report.h"
#include "tools/fitting/fit_runs.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostFitted = 1000, kMostSuggested = 50;

std::vector<MeasuredRun> runs_in(const std::string& path) {
  const MeasuredTable table = MeasuredTable::load(path);
  if (auto runs = runs_of_table(std::filesystem::path(path).filename().string(), table)) return *runs;
  throw InputError(
      fmt::format("{}: its columns are of no form that is known, allowed: what \"pipesim help "
                  "accuracy\" describes",
                  path));
}

// What runs plans here has no meaning for runs that others made.
void refuse_others(const Arguments& a) {
  for (const char* option : {"model", "topology", "plan", "random", "fit", "no-baselines", "steps", "warmup",
                             "backend", "optimizer", "microbatches", "recompute"}) {
    if (a.given(option))
      throw UsageError(
          fmt::format("calibrate: --runs and --{} exclude each other: runs are not made, but "
                      "read from the table",
                      option));
  }
}

}  // namespace

std::vector<Option> calibrate_runs_options() {
  return {
      {.name = "runs",
       .argument = "TABLE",
       .default_value = "",
       .help = "fit constants to a table of measured runs instead",
       .details =
           "The table is one that the command accuracy reads. What is written is a JSON file with a few "
           "factors on what topology and runtime say: rates of products, attention and memory, "
           "updates, the host, links, latency. With it, predictions have an interval."},
      {"most-runs", "N", "30", "fit to N of the runs, the others judge the fit"},
      {.name = "suggest",
       .argument = "N",
       .default_value = "3",
       .help = "name N runs that would tell most",
       .details = "They are chosen among rows of the table without a time, or else among runs like those of "
                  "the table with another tp, pp or microbatch."}};
}

int run_calibrate_runs(const Arguments& a, Streams& streams) {
  refuse_others(a);
  if (!a.has("output")) a.refuse("--output FILE is missing");
  const std::string& output = a.text("output");
  require_writable(output);
  FitSetting setting;
  setting.file = a.text("runs");
  setting.most_runs = static_cast<std::size_t>(a.integer("most-runs", 3, kMostFitted));
  setting.suggestions = static_cast<std::size_t>(a.integer("suggest", 0, kMostSuggested));
  if (a.given("seed")) setting.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  const std::vector<MeasuredRun> runs = runs_in(setting.file);
  StatusLine status(streams.err);
  const RunsFit fit = fit_runs(runs, setting, [&](const std::string& doing) {
    if (status.due()) status.show(doing);
  });
  status.clear();
  write_file(output, to_json(fit.constants));
  streams.out << (a.given("json") ? json_of(fit).dump(2) + "\n" : to_text(fit, output));
  return 0;
}

}  // namespace pipesim
