#include "tools/interop/shell/shell_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"

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

bool is_shell_program(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  return name == "bash" || name == "sh" || name == "zsh";
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

ShellText joined_by_blanks(const std::vector<ShellText>& words, std::size_t from) {
  ShellText text;
  for (std::size_t i = from; i < words.size(); ++i) {
    if (i > from) text.add(' ', words[i].place(0));
    text.add(words[i]);
  }
  return text;
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

std::optional<ShellRun::Assignment> ShellRun::assignment_in(const ShellText& word) const {
  const std::string& text = word.str();
  std::size_t end = shell_name_length(text);
  if (end == 0) return std::nullopt;
  Assignment result{.name = text.substr(0, end), .key = std::nullopt, .value = {}};
  if (end < text.size() && text[end] == '[') {
    const std::size_t close = text.find(']', end);
    if (close == std::string::npos) return std::nullopt;
    result.key = word.part(end + 1, close - end - 1);
    end = close + 1;
  }
  result.adds = std::string_view(text).substr(end).starts_with("+=");
  if (result.adds) ++end;
  if (end >= text.size() || text[end] != '=') return std::nullopt;
  result.value = word.part(end + 1);
  return result;
}

void ShellRun::assign(const Assignment& assignment) {
  const std::string& raw = assignment.value.str();
  if (!assignment.key && raw.starts_with('(') && raw.ends_with(')'))
    return assign_list(state_.variables[assignment.name], assignment);
  ShellText value = joined(assignment.value);
  if (value.str().find("--") != std::string::npos) keep_words(value);
  const bool number = state_.variables.contains(assignment.name) && state_.variables[assignment.name].list;
  const Value* const known = number ? &state_.variables[assignment.name] : nullptr;
  const std::string key = assignment.key ? key_text(known, *assignment.key) : "0";
  Value& variable = state_.variables[assignment.name];
  if (assignment.key) variable.list = true;
  if (!variable.list && !assignment.adds) variable.items.clear();
  for (auto& [name, text] : variable.items) {
    if (name != key) continue;
    if (assignment.adds) {
      constexpr std::size_t kLongest = 1 << 20;
      if (text.size() + value.size() > kLongest)
        fail(value.place(0), "a text of more than 1048576 characters");
      text.add(value);
    } else {
      text = std::move(value);
    }
    return;
  }
  variable.items.emplace_back(key, std::move(value));
}

// Words of a variable, for scripts whose launch does not show them.
void ShellRun::keep_words(const ShellText& value) {
  Fields words;
  words.add(value, true);
  words.end();
  for (const ShellText& word : words.done)
    script_.values.push_back({word.str(), files_[word.place(0).file], word.place(0).line});
}

void ShellRun::assign_list(Value& value, const Assignment& assignment) {
  const ShellText inner = assignment.value.part(1, assignment.value.size() - 2);
  std::vector<std::pair<std::string, ShellText>> items;
  if (assignment.adds) items = value.items;
  const bool named = value.named;
  for (const ShellText& word : shell_words(inner, files_)) {
    const std::size_t close = word.str().starts_with('[') ? word.str().find("]=") : std::string::npos;
    if (close != std::string::npos) {
      items.emplace_back(key_text(&value, word.part(1, close - 1)), joined(word.part(close + 2)));
      continue;
    }
    for (ShellText& field : fields(word)) {
      items.emplace_back(fmt::format("{}", items.size()), std::move(field));
    }
  }
  const bool arguments =
      std::ranges::any_of(items, [](const auto& item) { return item.second.str().starts_with("--"); });
  if (arguments) {
    for (const auto& [key, text] : items) keep_words(text);
  }
  Value& variable = state_.variables[assignment.name];  // words may have set others
  variable = {.list = true, .named = named, .items = std::move(items)};
}

// export A=1 B, declare -A M, local x=2.
void ShellRun::declare(const ShellNode& node, std::size_t from) {
  const std::string kind = node.words[from].str();
  bool named = false, list = false;
  for (std::size_t i = from + 1; i < node.words.size(); ++i) {
    const ShellText& word = node.words[i];
    if (word.str().starts_with('-')) {
      named |= word.str().find('A') != std::string::npos;
      list |= named || word.str().find('a') != std::string::npos;
      continue;
    }
    const std::optional<Assignment> assignment = assignment_in(word);
    const std::string name = assignment ? assignment->name : joined(word).str();
    if (kind == "local" && !locals_.empty() && !locals_.back().contains(name))
      locals_.back()[name] = state_.variables.contains(name) ? state_.variables[name] : Value();
    if (list) {
      Value& value = state_.variables[name];
      value.list = true;
      value.named = named;
    }
    if (assignment) {
      assign(*assignment);
    } else if (kind == "local" && !list) {
      state_.variables[name] = Value();
    }
  }
  status_ = Status::True;
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
  for (const Assignment& assignment : assignments) assign(assignment);
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

// What the shell does itself; nothing where it is a program.
std::optional<ShellRun::Flow> ShellRun::run_builtin(const ShellNode& node,
                                                    const std::vector<ShellText>& words) {
  const std::string& name = words[0].str();
  status_ = Status::True;
  if (name == "[" || name == "test") {
    const std::size_t end = name == "[" && words.back().str() == "]" ? words.size() - 1 : words.size();
    status_ =
        test({words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(end, 1))});
    return Flow::Next;
  }
  if (name == ":" || name == "true") return Flow::Next;
  if (name == "false") return status_ = Status::False, Flow::Next;
  if (name == "break") return Flow::Break;
  if (name == "continue") return Flow::Continue;
  if (name == "return") return Flow::Return;
  if (name == "exit") {
    // An exit with an error is passed over: a run that stops there is not the one to read.
    const bool stops = words.size() == 1 || words[1].str() == "0";
    return stops ? Flow::Exit : Flow::Next;
  }
  if (name == "eval") return run_text(joined_by_blanks(words, 1));
  if ((name == "source" || name == ".") && words.size() > 1) {
    if (const auto path = file_of(words[1], words[1].place(0), true))
      return run_file(*path, {words.begin() + 2, words.end()}, false);
    return Flow::Next;
  }
  if (name == "cd" || name == "pushd") {
    const bool known = words.size() == 2 && words[1].known();
    if (known) {
      const std::filesystem::path base = state_.folder.value_or(".");
      state_.folder = (base / words[1].str()).lexically_normal().string();
    } else {
      state_.folder.reset();
    }
    return Flow::Next;
  }
  if (name == "unset") {
    for (std::size_t i = 1; i < words.size(); ++i) state_.variables[words[i].str()] = Value();
    return Flow::Next;
  }
  if (name == "read" || name == "mapfile" || name == "readarray") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (shell_name_length(words[i].str()) == words[i].size())
        set_unknown(words[i].str(), words[i].place(0));
    }
    status_ = Status::Unknown;
    return Flow::Next;
  }
  if (name == "let") {
    for (std::size_t i = 1; i < words.size(); ++i) sum(words[i]);
    return Flow::Next;
  }
  if (name == "shift") {
    if (!state_.arguments.empty()) state_.arguments.erase(state_.arguments.begin());
    return Flow::Next;
  }
  if (name == "set") {
    if (words.size() > 1 && words[1].str() == "--") {
      state_.arguments.assign(words.begin() + 2, words.end());
      state_.knows_arguments = true;
    }
    return Flow::Next;
  }
  if (name == "echo" || name == "printf" || name == "cat" || name == "pwd") {
    print(node, words);
    return Flow::Next;
  }
  return std::nullopt;
}

// bash -c "…", bash FILE, and programs that get a command as one word.
std::optional<ShellRun::Flow> ShellRun::run_shell(const std::vector<ShellText>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].str();
    const bool command = text.find(".py") != std::string::npos && text.find(" -") != std::string::npos;
    const bool option = text.starts_with("--") && text.find("--", 2) == std::string::npos;
    if (command && !option) {
      const bool wraps = text.starts_with("--wrap=");
      run_text(wraps ? words[i].part(std::string_view("--wrap=").size()) : words[i]);
      status_ = Status::Program;
      return Flow::Next;
    }
  }
  std::size_t script = 0;
  if (words.size() > 1 && is_shell_program(words[0].str())) {
    script = 1;
    while (script < words.size() && words[script].str().starts_with('-')) ++script;
  } else if (!words[0].str().ends_with(".sh")) {
    return std::nullopt;
  }
  if (script >= words.size()) return std::nullopt;
  status_ = Status::Program;
  captures_all_ = false;
  const auto path = file_of(words[script], words[script].place(0), false);
  if (!path) {
    if (!words[script].empty()) script_.missing.push_back(words[script].str());
    return std::nullopt;
  }
  run_file(*path, {words.begin() + static_cast<std::ptrdiff_t>(script) + 1, words.end()}, true);
  status_ = Status::Program;
  return Flow::Next;
}

ShellRun::Flow ShellRun::run_text(const ShellText& text) {
  constexpr int kDeepest = 50;
  if (++depth_ > kDeepest)
    fail(text.place(0), fmt::format("commands within each other, allowed: {}", kDeepest));
  const Flow flow = run(parse_shell(text, files_));
  --depth_;
  return flow;
}

ShellRun::Flow ShellRun::run_file(const std::string& path, const std::vector<ShellText>& arguments,
                                  bool apart) {
  constexpr int kDeepest = 20;
  constexpr std::size_t kMostFiles = 1000;
  if (++depth_ > kDeepest || files_.size() >= kMostFiles)
    throw InputError(
        fmt::format("{}: files that read each other, allowed: {} within each other", path, kDeepest));
  const State saved = state_;
  if (apart || !arguments.empty()) {
    state_.arguments = arguments;
    state_.knows_arguments = true;
  }
  files_.push_back(path);
  const std::size_t outer = std::exchange(current_, files_.size() - 1);
  const std::size_t outer_start = apart ? std::exchange(started_, current_) : started_;
  const ShellText text(read_file(path), {.line = 1, .file = static_cast<std::uint16_t>(files_.size() - 1)});
  const Flow flow = run(parse_shell(text, files_));
  if (apart) {
    state_ = saved;
  } else {
    state_.arguments = saved.arguments;
    state_.knows_arguments = saved.knows_arguments;
  }
  current_ = outer;
  started_ = outer_start;
  --depth_;
  return flow == Flow::Exit && !apart ? Flow::Exit : Flow::Next;
}

void ShellRun::start_program(const std::vector<ShellText>& words) {
  status_ = Status::Program;
  const bool has_flags =
      std::ranges::any_of(words, [](const ShellText& word) { return word.str().starts_with("--"); });
  if (!has_flags) return;
  std::vector<ShellWord> command;
  for (const ShellText& word : words)
    command.push_back({word.str(), files_[word.place(0).file], word.place(0).line});
  script_.commands.push_back(std::move(command));
}

// What a command prints goes to $(…) or to a file.
void ShellRun::print(const ShellNode& node, const std::vector<ShellText>& words) {
  const std::optional<ShellText> text = printed(words, node);
  const bool to_file = std::ranges::any_of(node.redirects, [](const ShellRedirect& r) {
    return r.sign == ">" || r.sign == ">>" || r.sign == ">|";
  });
  if (to_file && text) return write(node, *text);
  if (capture_ == nullptr || to_file) return;
  if (text) {
    capture_->add(*text);
  } else {
    captures_all_ = false;
  }
}

void ShellRun::write(const ShellNode& node, const ShellText& text) {
  for (const ShellRedirect& redirect : node.redirects) {
    if (redirect.sign != ">" && redirect.sign != ">>" && redirect.sign != ">|") continue;
    std::string& file = script_.written[joined(redirect.target).str()];
    if (redirect.sign != ">>") file.clear();
    constexpr std::size_t kLongest = 1 << 20;
    if (file.size() + text.size() <= kLongest) file += text.str();
  }
}

std::optional<ShellText> ShellRun::printed(const std::vector<ShellText>& words, const ShellNode& node) {
  const std::string program = words[0].str().substr(words[0].str().rfind('/') + 1);
  const ShellPlace place = words[0].place(0);
  const auto line = [&](const std::string& text) { return ShellText::at(text + "\n", place); };
  const bool one = words.size() == 2 && words[1].known();
  namespace fs = std::filesystem;
  if (program == "echo") {
    std::size_t from = 1;
    while (from < words.size() && (words[from].str() == "-n" || words[from].str() == "-e")) ++from;
    ShellText text = joined_by_blanks(words, from);
    text.add('\n', place);
    return text;
  }
  if (program == "cat") {
    for (const ShellRedirect& redirect : node.redirects) {
      if (redirect.here) return redirect.expands ? joined(*redirect.here, true) : *redirect.here;
    }
    if (words.size() != 2) return std::nullopt;
    if (const auto path = file_of(words[1], place, capture_ != nullptr))
      return ShellText(read_file(*path), place);
    return std::nullopt;
  }
  if (program == "pwd") {
    return state_.folder ? std::optional(line(*state_.folder)) : std::nullopt;
  }
  if (program == "dirname" && words.size() > 1 && words.back().known()) {
    const std::string folder = fs::path(words.back().str()).parent_path().string();
    return line(folder.empty() ? "." : folder);
  }
  if (program == "basename" && (one || words.size() == 3)) {
    std::string name = fs::path(words[1].str()).filename().string();
    if (words.size() == 3 && name.ends_with(words[2].str())) name.resize(name.size() - words[2].size());
    return words[1].known() ? std::optional(line(name)) : std::nullopt;
  }
  if ((program == "realpath" || program == "readlink") && words.size() > 1 && words.back().known())
    return line(words.back().str());
  if (program == "expr") {
    const auto value = sum(joined_by_blanks(words, 1));
    return value ? std::optional(line(fmt::format("{}", *value))) : std::nullopt;
  }
  return std::nullopt;
}

ShellScript read_shell_script(std::string_view text, const std::string& source, const ShellMachine& machine) {
  return ShellRun(text, source, machine).result();
}

}  // namespace pipesim
