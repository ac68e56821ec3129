#include "tools/cli/calibrating/calibrate_runs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/analysis/accuracy/tables/runs_table.h"
#include "tools/analysis/fitting/fit_runs.h"
#include "tools/cli/base/status_line.h"
#include "tools/render/fitting/fit_report.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostFitted = 1000, kMostSuggested = 50;

// All else says how to run plans here.
void refuse_others(const Arguments& a) {
  const std::set<std::string> allowed{"runs", "most-runs", "suggest", "seed", "output", "json"};
  for (const Option& option : calibrate_command().options) {
    if (a.given(option.name) && !allowed.contains(option.name))
      throw UsageError(
          fmt::format("calibrate: --runs and --{} exclude each other: runs are not made, but "
                      "read from the table",
                      option.name));
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
      {.name = "most-runs",
       .argument = "N",
       .default_value = "30",
       .help = "fit to N of the runs, the others judge the fit",
       .details = "They are chosen at random, by --seed."},
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
  setting.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  const std::vector<MeasuredRun> runs = runs_of_table(MeasuredTable::load(setting.file));
  StatusLine status(streams);
  const RunsFit fit = fit_runs(runs, setting, [&](const std::string& doing) {
    if (status.due()) status.show(doing);
  });
  status.clear();
  write_file(output, to_json(fit.constants));
  if (a.given("json")) {
    give_document(streams, json_of(fit));
  } else {
    streams.out << to_text(fit, output);
  }
  return 0;
}

}  // namespace pipesim
