#include "search/intra/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/intra/check_answer.h"
#include "search/intra/files/read_instance.h"
#include "search/stopwatch.h"
#include "sim/base/cores.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/output_files.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/searching/interrupt.h"
#include "tools/cli/searching/search_watch.h"
#include "tools/interop/traces/trace_text.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

constexpr Bytes kMostText(std::int64_t{1} << 30);

// The text of a file, which may be compressed.
template <typename Read>
auto read_text(const std::string& file, const char* allowed, Read&& read) {
  if (std::filesystem::is_directory(file))
    throw InputError(fmt::format("{}: is a directory, allowed: {}", file, allowed));
  TraceText text(file, kMostText);
  std::istream stream(&text);
  stream.exceptions(std::ios::badbit);  // which passes the InputError of the text on
  return read(stream);
}

IntraInstance open_instance(const std::string& file) {
  return read_text(file, "an instance", [&](std::istream& text) { return read_instance(text, file); });
}

// Writes "217,039", or two decimals where the file has fractions.
std::string grouped(WideCost cost, double unit) {
  if (unit != 1) return fmt::format("{:.2f}", static_cast<double>(cost) * unit);
  std::string digits = to_string(cost);
  const std::ptrdiff_t first = cost < 0 ? 2 : 1;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at >= first; at -= 3)
    digits.insert(digits.begin() + at, ',');
  return digits;
}

nlohmann::ordered_json json_of_cost(WideCost cost, double unit) {
  if (unit != 1) return static_cast<double>(cost) * unit;
  if (cost == static_cast<std::int64_t>(cost)) return static_cast<std::int64_t>(cost);
  return to_string(cost);
}

std::string gap_text(const IntraSolution& solution) {
  if (!solution.found) return "-";
  return solution.proven ? "optimal" : fmt::format("{:.3f} %", 100 * solution.gap());
}

struct SolvedInstance {
  std::string file;
  std::size_t nodes = 0, edges = 0;
  double unit = 1, seconds = 0;
  IntraSolution solution;
};

std::string markdown_of(const std::vector<SolvedInstance>& solved) {
  std::string text =
      "| instance | nodes | edges | nodes left | best | bound | gap | seconds |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const SolvedInstance& s : solved)
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.1f} |\n",
                        std::filesystem::path(s.file).filename().string(), s.nodes, s.edges, s.solution.nodes,
                        s.solution.found ? grouped(s.solution.cost, s.unit) : "none",
                        grouped(s.solution.bound, s.unit), gap_text(s.solution), s.seconds);
  return text;
}

std::string table_of(const std::vector<SolvedInstance>& solved) {
  Table table({{"instance"},
               {"nodes", Align::Right},
               {"edges", Align::Right},
               {"nodes left", Align::Right},
               {"best", Align::Right},
               {"bound", Align::Right},
               {"gap", Align::Right},
               {"seconds", Align::Right}});
  for (const SolvedInstance& s : solved)
    table.add({std::filesystem::path(s.file).filename().string(), std::to_string(s.nodes),
               std::to_string(s.edges), std::to_string(s.solution.nodes),
               s.solution.found ? grouped(s.solution.cost, s.unit) : "none",
               grouped(s.solution.bound, s.unit), gap_text(s.solution), fmt::format("{:.1f}", s.seconds)});
  return table.str();
}

nlohmann::ordered_json json_of_solved(const std::vector<SolvedInstance>& solved) {
  nlohmann::ordered_json instances = nlohmann::ordered_json::array();
  for (const SolvedInstance& s : solved) {
    nlohmann::ordered_json one{{"file", s.file},
                               {"nodes", s.nodes},
                               {"edges", s.edges},
                               {"nodes_left", s.solution.nodes},
                               {"cost", nullptr},
                               {"bound", json_of_cost(s.solution.bound, s.unit)},
                               {"gap", nullptr},
                               {"proven", s.solution.proven},
                               {"parts", s.solution.parts},
                               {"rounds", s.solution.rounds},
                               {"seconds", s.seconds}};
    if (s.solution.found) {
      one["cost"] = json_of_cost(s.solution.cost, s.unit);
      one["gap"] = s.solution.gap();
    }
    instances.push_back(std::move(one));
  }
  return {{"instances", std::move(instances)}};
}

int check_given_answer(const Arguments& arguments, Streams& streams) {
  const std::string& file = arguments.operands()[0];
  const IntraInstance instance = open_instance(file);
  const std::string& answer_file = arguments.text("check");
  const IntraAnswer answer = read_text(
      answer_file, "an answer", [&](std::istream& text) { return read_answer(text, answer_file, instance); });
  const CheckedAnswer checked = check_answer(instance, answer);
  if (arguments.given("json")) {
    nlohmann::ordered_json json{{"file", file},
                                {"allowed", checked.feasible()},
                                {"cost", json_of_cost(checked.cost, instance.unit)},
                                {"most_used", checked.most_used},
                                {"most_used_at", checked.most_used_at},
                                {"limit", instance.limit}};
    if (!checked.feasible()) json["broken"] = checked.broken;
    give_document(streams, json);
  } else if (checked.feasible()) {
    streams.out << fmt::format("allowed; cost {}; at most {} of {} used, at time {}\n",
                               grouped(checked.cost, instance.unit), grouped(checked.most_used, 1),
                               grouped(instance.limit, 1), checked.most_used_at);
  }
  if (!checked.feasible() && !arguments.given("json"))
    throw InputError(fmt::format("{}: {}", answer_file, checked.broken));
  return checked.feasible() ? 0 : 1;
}

SolvedInstance solve_file(const std::string& file, const Arguments& arguments, const Interrupt& interrupt,
                          Streams& streams) {
  const Stopwatch watch;
  SolvedInstance solved;
  solved.file = file;
  double seconds = std::numeric_limits<double>::infinity();
  if (arguments.given("seconds") || !arguments.given("rounds"))
    seconds = arguments.number("seconds", 1e-3, 1e7);
  // Some time is kept for the last step to end, for the answer's file, and to free memory.
  constexpr double kKept = 0.01, kMostKept = 1;
  const Deadline deadline = Deadline(seconds - std::min(kMostKept, kKept * seconds)).with_stop([&] {
    return interrupt.requested();
  });
  const KeepTo keep(deadline);
  StatusLine line(streams);
  if (line.due()) line.show(fmt::format("{}: reading", file));
  const IntraInstance instance = open_instance(file);
  solved.nodes = instance.nodes.size();
  solved.edges = instance.edges.size();
  solved.unit = instance.unit;
  IntraSettings settings;
  settings.seed =
      static_cast<std::uint64_t>(arguments.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  settings.threads = static_cast<std::size_t>(
      arguments.given("threads") ? arguments.integer("threads", 1, 1024) : available_cores());
  if (arguments.given("rounds"))
    settings.rounds =
        static_cast<std::uint64_t>(arguments.integer("rounds", 0, std::numeric_limits<std::int64_t>::max()));
  settings.progress = [&](const IntraProgress& p) {
    if (!line.due()) return;
    std::string text = fmt::format("{}: round {}, {} strategies left", file, p.rounds, p.strategies);
    if (p.parts > 1) text += fmt::format(" in part {}", p.parts);
    text += fmt::format(", best {}, bound {}", p.found ? grouped(p.cost, instance.unit) : "none",
                        grouped(p.bound, instance.unit));
    if (deadline.limited()) text += fmt::format(", {:.0f} s left", deadline.left());
    line.show(text);
  };
  try {
    solved.solution = solve(instance, settings);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", file, error.what()));
  }
  if (solved.solution.proven && !solved.solution.found)
    throw InputError(
        fmt::format("{}: no answer keeps to what is forbidden and to the limit {}: this is proven", file,
                    instance.limit));
  solved.seconds = watch.seconds();
  if (solved.solution.found && arguments.given("output"))
    write_file(arguments.text("output"), answer_text(solved.solution.answer, solved.solution.cost));
  return solved;
}

// A folder stands for its instances, in the order of their names, without their answers.
std::vector<std::string> instance_files(const std::vector<std::string>& operands) {
  std::vector<std::string> files;
  for (const std::string& operand : operands) {
    if (!std::filesystem::is_directory(operand)) {
      files.push_back(operand);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(operand)) {
      const std::string file = entry.path().string();
      const bool is_json = file.ends_with(".json") || file.ends_with(".json.gz");
      if (is_json && !file.ends_with(".answer.json")) files.push_back(file);
    }
    if (files.size() == before)
      throw InputError(fmt::format(
          "{}: no instances in this folder, allowed: files that end in .json or .json.gz", operand));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

int run_solve(const Arguments& arguments, Streams& streams) {
  const std::vector<std::string> files = instance_files(arguments.operands());
  for (const char* option : {"check", "output"}) {
    if (arguments.given(option) && files.size() > 1)
      arguments.refuse(fmt::format("--{} goes with one file; found {}", option, files.size()));
  }
  require_own_output_files(arguments);
  if (arguments.given("check")) return check_given_answer(arguments, streams);
  if (arguments.given("output")) require_writable(arguments.text("output"));
  const Interrupt interrupt(streams.caller);
  std::vector<SolvedInstance> solved;
  bool all_found = true;
  for (const std::string& file : files) {
    if (interrupt.requested()) break;
    solved.push_back(solve_file(file, arguments, interrupt, streams));
    all_found = all_found && solved.back().solution.found;
  }
  if (arguments.given("json")) {
    give_document(streams, json_of_solved(solved));
  } else {
    streams.out << (arguments.given("markdown") ? markdown_of(solved) : table_of(solved));
  }
  if (interrupt.requested()) return kInterruptedStatus;
  return all_found ? 0 : 1;
}

}  // namespace

Command solve_command() {
  Command c;
  c.name = "solve";
  c.summary = "choose a strategy for each node of an intra-operator problem";
  c.description =
      "Chooses one strategy for each node so that the costs of nodes and edges are least, and so that the "
      "memory of what is alive stays within the limit at each time. Prints the best cost found and a bound "
      "that no answer is below.\n\nIt reads instances of the ASPLOS 2025 contest on intra-operator "
      "parallelism, also compressed by gzip, and problems that Alpa has merged. Of a folder it solves all "
      "that end in .json "
      "or .json.gz, but for .answer.json. It stops when the best is "
      "proven optimal, when the time is over, or at Ctrl-C. The status is 1 where no answer was found. "
      "docs/intra.md tells how it works and what it reaches.";
  c.operands = {{.name = "FILE", .help = "an instance, or a folder of them", .repeated = true}};
  c.options = in_group(
      OptionGroup::Search,
      {{.name = "seconds",
        .argument = "N",
        .default_value = "60",
        .help = "finish within this time, for each file",
        .details = "Reading counts. Without --seconds there is no limit where --rounds is given."},
       {.name = "rounds",
        .argument = "N",
        .default_value = "",
        .help = "stop after so many rounds, instead of --seconds",
        .details = "The answer then depends on the seed alone, not on the threads."},
       {.name = "threads", .argument = "N", .default_value = "all cores", .help = "threads to work on"},
       {"seed", "N", "0", "seed of all random choices"}});
  const std::vector<Option> outputs = in_group(
      OptionGroup::Output,
      {{.name = "check",
        .argument = "FILE",
        .default_value = "",
        .help = "evaluate this answer instead of searching",
        .details = "What -o writes, or a list of strategies. The status is 1 where it breaks a rule."},
       {.name = "output",
        .argument = "FILE",
        .default_value = "",
        .help = "write the best answer as JSON",
        .letter = 'o'},
       {.name = "markdown", .argument = "", .default_value = "", .help = "print the table as Markdown"},
       json_option()});
  c.options.insert(c.options.end(), outputs.begin(), outputs.end());
  c.common = {"seconds", "threads", "check", "output", "json"};
  c.examples = {{"pipesim solve docs/examples/intra.json", "the best strategies of a small block"},
                {"pipesim solve docs/examples/intra.json --rounds 10 -o block.answer.json", "write them"},
                {"pipesim solve docs/examples/intra.json --check block.answer.json", "evaluate an answer"}};
  c.run = run_solve;
  return c;
}

}  // namespace pipesim
