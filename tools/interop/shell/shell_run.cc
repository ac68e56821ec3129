#include "tools/interop/shell/shell_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/interop/shell/shell_parts.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostShellSteps = 20'000;
constexpr std::size_t kMostRounds = 1000;

// Whether commands could change what a program gets.
bool decides_arguments(const ShellList& list) {
  const auto word_does = [](const ShellText& word) {
    return word.str().find("--") != std::string::npos ||
           (shell_name_length(word.str()) > 0 && word.str().find('=') != std::string::npos);
  };
  return std::ranges::any_of(list, [&](const ShellNode& node) {
    return std::ranges::any_of(node.words, word_does) || decides_arguments(node.parts) ||
           std::ranges::any_of(node.lists, decides_arguments);
  });
}

bool is_declaration(const std::string& word) {
  return word == "export" || word == "declare" || word == "local" || word == "readonly" || word == "typeset";
}

// A range {1..8}, written out.
std::vector<ShellText> with_ranges(const ShellText& word) {
  const std::string& text = word.str();
  const std::size_t open = text.find('{'), dots = text.find("..", std::min(open, text.size()));
  const std::size_t close = text.find('}', std::min(dots, text.size()));
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos) return {word};
  std::int64_t first = 0, last = 0;
  const auto whole = [&](std::size_t begin, std::size_t end, std::int64_t& number) {
    const auto [stopped, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    return error == std::errc() && stopped == text.data() + end;
  };
  constexpr std::int64_t kMost = 10'000;
  if (!whole(open + 1, dots, first) || !whole(dots + 2, close, last) || first < 0 || last > kMost)
    return {word};
  std::vector<ShellText> result;
  for (std::int64_t i = first; i <= last; ++i) {
    ShellText item = word.part(0, open);
    item.add(ShellText::at(fmt::format("{}", i), word.place(open)));
    item.add(word.part(close + 1));
    result.push_back(std::move(item));
  }
  return result;
}

}  // namespace

ShellRun::ShellRun(std::string_view text, const std::string& source, const ShellMachine& machine)
    : machine_(machine), files_{source}, whole_(text, ShellPlace()) {
  read_directives(text);
}

// Slurm sets variables to what lines "#SBATCH --nodes=4" ask for.
void ShellRun::read_directives(std::string_view text) {
  static const std::vector<std::pair<std::string_view, std::vector<std::string>>> kVariables{
      {"--nodes", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"--ntasks-per-node", {"SLURM_NTASKS_PER_NODE"}},
      {"--gpus-per-node", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}}};
  std::uint32_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view rest = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (!rest.starts_with("#SBATCH ")) continue;
    rest.remove_prefix(std::string_view("#SBATCH ").size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    for (const auto& [option, variables] : kVariables) {
      if (!rest.starts_with(option)) continue;
      std::string_view value = rest.substr(option.size());
      if (value.empty() || (value[0] != '=' && value[0] != ' ')) continue;
      value.remove_prefix(1);
      value = value.substr(0, value.find_first_not_of("0123456789"));
      if (value.empty()) continue;
      for (const std::string& variable : variables) set(variable, ShellText::at(value, {.line = line}));
    }
  }
}

ShellScript ShellRun::result() {
  run(parse_shell(whole_, files_));
  return std::move(script_);
}

void ShellRun::fail(ShellPlace place, const std::string& message) const {
  throw InputError(fmt::format("{}: {}", where(place), message));
}

std::string ShellRun::where(ShellPlace place) const {
  return fmt::format("{}:{}", files_[place.file], place.line);
}

void ShellRun::note(ShellPlace place, const std::string& message) {
  const std::string text = fmt::format("{}: {}", where(place), message);
  if (std::ranges::find(script_.notes, text) == script_.notes.end()) script_.notes.push_back(text);
}

void ShellRun::count_step(ShellPlace place) {
  if (++steps_ > kMostShellSteps)
    fail(place, fmt::format("more than {} commands in turn are not followed", kMostShellSteps));
}

ShellRun::Flow ShellRun::run(const ShellList& list) {
  for (const ShellNode& node : list) {
    const Flow flow = run(node);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

ShellRun::Flow ShellRun::run(const ShellNode& node) {
  count_step(node.place);
  using Kind = ShellNode::Kind;
  switch (node.kind) {
    case Kind::Chain:
      return run_chain(node);
    case Kind::Pipe:
      return run_pipe(node);
    case Kind::If:
      return run_if(node);
    case Kind::For:
      return run_for(node);
    case Kind::Count:
      return run_count(node);
    case Kind::While:
      return run_while(node);
    case Kind::Case:
      return run_case(node);
    case Kind::Group:
      return run_group(node);
    case Kind::Function:
      functions_[node.name] = std::make_shared<ShellNode>(node);
      return Flow::Next;
    case Kind::Test: {
      const bool asked = std::exchange(asks_, true);
      status_ = test_raw(node.words);
      asks_ = asked;
      return Flow::Next;
    }
    case Kind::Sum: {
      const auto value = sum(node.words.front());
      status_ = !value ? Status::Unknown : *value != 0 ? Status::True : Status::False;
      return Flow::Next;
    }
    case Kind::Command:
      break;
  }
  return run_simple(node);
}

ShellRun::Flow ShellRun::run_chain(const ShellNode& node) {
  std::set<std::string> outer = std::exchange(unset_, {});
  Flow flow = run(node.parts.front());
  for (std::size_t i = 1; i < node.parts.size() && flow == Flow::Next; ++i) {
    const bool worked = status_ == Status::True || status_ == Status::Program;
    if ((status_ == Status::Unknown || !unset_.empty()) && decides_arguments({node.parts[i]}))
      note(node.place, unset_.empty() ? "a condition is not known here, and taken as false"
                                      : fmt::format("{} is not set here, and taken as empty in a condition",
                                                    fmt::join(unset_, ", ")));
    if (worked == (node.joints[i - 1] == '&')) flow = run(node.parts[i]);
  }
  unset_ = std::move(outer);
  return flow;
}

ShellRun::Flow ShellRun::run_pipe(const ShellNode& node) {
  if (node.parts.size() == 1) {
    const Flow flow = run(node.parts.front());
    if (status_ == Status::True) {
      status_ = Status::False;
    } else if (status_ == Status::False) {
      status_ = Status::True;
    } else {
      status_ = Status::Unknown;
    }
    return flow;
  }
  if (const auto devices = counted_devices(node); devices && capture_ != nullptr) {
    capture_->add(ShellText::at(fmt::format("{}", *devices), node.place));
    status_ = Status::Program;
    return Flow::Next;
  }
  const State saved = state_;
  for (const ShellNode& part : node.parts) run(part);
  state_ = saved;
  captures_all_ = false;
  status_ = Status::Program;
  return Flow::Next;
}

// nvidia-smi … | wc -l, a line for each device of a host. DeepSpeed's ds_ssh asks all hosts, and prints two
// lines more.
std::optional<std::int64_t> ShellRun::counted_devices(const ShellNode& pipe) const {
  const auto is = [&](const ShellNode& node, std::size_t i, std::string_view word) {
    return i < node.words.size() && node.words[i].str() == word;
  };
  if (machine_.devices == 0 || pipe.parts.size() != 2) return std::nullopt;
  const ShellNode &asks = pipe.parts[0], &counts = pipe.parts[1];
  if (!is(counts, 0, "wc") || !is(counts, 1, "-l")) return std::nullopt;
  if (is(asks, 0, "nvidia-smi")) return machine_.devices_of_host;
  if (is(asks, 0, "ds_ssh") && is(asks, 1, "nvidia-smi")) return machine_.devices + 2;
  return std::nullopt;
}

// Returns whether a condition holds. An unknown one is taken as false, which is noted where it matters.
bool ShellRun::holds(const ShellList& condition, const std::vector<const ShellList*>& bodies,
                     ShellPlace place) {
  std::set<std::string> outer = std::exchange(unset_, {});
  run(condition);
  const bool matters =
      std::ranges::any_of(bodies, [](const ShellList* body) { return decides_arguments(*body); });
  const bool unknown = status_ == Status::Unknown || status_ == Status::Program;
  if (matters && !unset_.empty()) {
    note(place,
         fmt::format("{} is not set here, and taken as empty in a condition", fmt::join(unset_, ", ")));
  } else if (matters && unknown) {
    note(place, "a condition is not known here, and taken as false");
  }
  unset_ = std::move(outer);
  return status_ == Status::True;
}

ShellRun::Flow ShellRun::run_if(const ShellNode& node) {
  for (std::size_t i = 0; i + 1 < node.lists.size(); i += 2) {
    std::vector<const ShellList*> bodies;
    for (std::size_t b = i + 1; b < node.lists.size(); b += 2) bodies.push_back(&node.lists[b]);
    if (node.lists.size() % 2 == 1) bodies.push_back(&node.lists.back());
    if (holds(node.lists[i], bodies, node.place)) return run(node.lists[i + 1]);
  }
  return node.lists.size() % 2 == 1 ? run(node.lists.back()) : Flow::Next;
}

ShellRun::Flow ShellRun::run_for(const ShellNode& node) {
  std::vector<ShellText> items;
  for (const ShellText& word : node.words) {
    for (const ShellText& field : fields(word)) {
      for (ShellText& item : with_ranges(field)) items.push_back(std::move(item));
    }
  }
  for (ShellText& item : items) {
    set(node.name, std::move(item));
    const Flow flow = run(node.parts);
    if (flow == Flow::Break) break;
    if (flow == Flow::Return || flow == Flow::Exit) return flow;
  }
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_count(const ShellNode& node) {
  sum(node.words[0]);
  for (std::size_t i = 0; i < kMostRounds; ++i) {
    const auto goes_on = node.words[1].empty() ? std::optional<std::int64_t>(1) : sum(node.words[1]);
    if (!goes_on || *goes_on == 0) break;
    const Flow flow = run(node.parts);
    if (flow == Flow::Break) break;
    if (flow == Flow::Return || flow == Flow::Exit) return flow;
    sum(node.words[2]);
  }
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_while(const ShellNode& node) {
  for (std::size_t i = 0; i < kMostRounds; ++i) {
    const bool goes_on = holds(node.lists[0], {&node.lists[1]}, node.place);
    if (node.until ? status_ != Status::False : !goes_on) break;
    const Flow flow = run(node.lists[1]);
    if (flow == Flow::Break) break;
    if (flow == Flow::Return || flow == Flow::Exit) return flow;
  }
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_case(const ShellNode& node) {
  const bool asked = std::exchange(asks_, true);
  std::set<std::string> outer = std::exchange(unset_, {});
  const ShellText subject = joined(node.words.front());
  asks_ = asked;
  const bool matters = std::ranges::any_of(node.lists, decides_arguments);
  if (matters && !unset_.empty())
    note(node.place,
         fmt::format("{} is not set here, and taken as empty in a \"case\"", fmt::join(unset_, ", ")));
  if (matters && !subject.known())
    note(node.place, "the subject of a \"case\" is not known here, and taken as none but *");
  unset_ = std::move(outer);
  for (std::size_t i = 0; i < node.lists.size(); ++i) {
    const bool matches = std::ranges::any_of(node.patterns[i], [&](const ShellText& pattern) {
      const std::string text = joined(pattern).str();
      return subject.known() ? shell_matches(text, subject.str()) : text == "*";
    });
    if (matches) return run(node.lists[i]);
  }
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_group(const ShellNode& node) {
  if (!node.apart) return run(node.parts);
  const State saved = state_;
  const Flow flow = run(node.parts);
  state_ = saved;
  return flow == Flow::Exit ? Flow::Next : flow;
}

ShellRun::Flow ShellRun::run_simple(const ShellNode& node) {
  std::size_t from = 0;
  std::vector<Assignment> assignments;
  while (from < node.words.size()) {
    const std::optional<Assignment> assignment = assignment_in(node.words[from]);
    if (!assignment) break;
    assignments.push_back(*assignment);
    ++from;
  }
  // Those before a command hold for it alone, but no two commands set the same here.
  for (const Assignment& assignment : assignments) {
    if (from < node.words.size()) exported_.insert(assignment.name);
    assign(assignment);
  }
  if (from == node.words.size()) {
    status_ = Status::True;
    return Flow::Next;
  }
  if (is_declaration(node.words[from].str())) {
    declare(node, from);
    return Flow::Next;
  }
  const std::string& first = node.words[from].str();
  const bool asked = std::exchange(asks_, first == "[" || first == "test" || asks_);
  std::vector<ShellText> words;
  for (std::size_t i = from; i < node.words.size(); ++i) {
    for (ShellText& word : fields(node.words[i])) words.push_back(std::move(word));
  }
  asks_ = asked;
  if (words.empty()) {
    status_ = Status::True;
    return Flow::Next;
  }
  if (const auto function = functions_.find(words[0].str()); function != functions_.end()) {
    const std::shared_ptr<const ShellNode> kept = function->second;
    return run_function(*kept, words);
  }
  if (const auto flow = run_builtin(node, words)) return *flow;
  if (const auto flow = run_shell(words)) return *flow;
  start_program(words);
  print(node, words);
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_function(const ShellNode& function, const std::vector<ShellText>& words) {
  constexpr int kDeepest = 50;
  if (++depth_ > kDeepest)
    fail(words[0].place(0), fmt::format("functions within each other, allowed: {}", kDeepest));
  std::vector<ShellText> arguments(words.begin() + 1, words.end());
  std::swap(state_.arguments, arguments);
  const bool known = std::exchange(state_.knows_arguments, true);
  locals_.emplace_back();
  const Flow flow = run(function.parts);
  for (auto& [name, value] : locals_.back()) state_.variables[name] = std::move(value);
  locals_.pop_back();
  std::swap(state_.arguments, arguments);
  state_.knows_arguments = known;
  --depth_;
  return flow == Flow::Return ? Flow::Next : flow;
}

ShellScript read_shell_script(std::string_view text, const std::string& source, const ShellMachine& machine) {
  return ShellRun(text, source, machine).result();
}

}  // namespace pipesim
