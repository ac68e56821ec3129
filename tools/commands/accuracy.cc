#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/errors.h"
#include "tools/accuracy/errors_report.h"
#include "tools/accuracy/measured_table.h"
#include "tools/accuracy/megatron_runs.h"
#include "tools/cli/command.h"
#include "tools/commands/options/shared_options.h"

namespace pipesim {
namespace {

// The tables that are understood, by the names of their files.
struct KnownTable {
  const char* file;
  std::vector<MeasuredRun> (*runs)(const MeasuredTable& table);
};
constexpr KnownTable kTables[] = {{"megatron_golden.csv", megatron_runs}};

std::vector<ErrorsReport> judged_tables(const std::string& folder) {
  std::vector<ErrorsReport> reports;
  std::string names;
  for (const KnownTable& known : kTables) {
    names += (names.empty() ? "" : ", ") + std::string(known.file);
    const std::filesystem::path path = std::filesystem::path(folder) / known.file;
    if (!std::filesystem::exists(path)) continue;
    reports.push_back(judge(known.file, known.runs(MeasuredTable::load(path.string()))));
  }
  if (!std::filesystem::is_directory(folder)) throw InputError(fmt::format("{}: is no folder", folder));
  if (reports.empty())
    throw InputError(fmt::format("{}: has no table that accuracy knows, allowed: {}", folder, names));
  return reports;
}

int run_accuracy(const Arguments& arguments, Streams& streams) {
  if (arguments.given("json") && arguments.given("markdown"))
    throw UsageError("accuracy: --json and --markdown exclude each other");
  const std::vector<ErrorsReport> reports = judged_tables(required_text(arguments, "data"));
  if (arguments.given("json")) {
    nlohmann::ordered_json tables = nlohmann::ordered_json::array();
    for (const ErrorsReport& report : reports) tables.push_back(json_of(report));
    streams.out << nlohmann::ordered_json{{"tables", tables}}.dump(2) << "\n";
    return 0;
  }
  for (const ErrorsReport& report : reports)
    streams.out << (arguments.given("markdown") ? to_markdown(report)
                                                : to_text(report, arguments.given("rows")));
  return 0;
}

}  // namespace

Command accuracy_command() {
  Command c;
  c.name = "accuracy";
  c.summary = "compare predictions with tables of measured runs";
  c.description =
      "Reads tables of measured runs from a folder, predicts each run as simulate --recipe would, and prints "
      "the errors by group: median, mean and bias of the relative error, and the worst one. Runs that "
      "pipesim can't express are counted with the reason.\n\nIt knows megatron_golden.csv, the memory of "
      "Megatron-LM's functional tests; docs/llm.md describes it.";
  c.options = {{"data", "FOLDER", "", "the folder of the tables"},
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
