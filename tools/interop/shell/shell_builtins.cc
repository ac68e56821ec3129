#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/interop/shell/shell_parts.h"
#include "tools/interop/shell/shell_run.h"

namespace pipesim {
namespace {

bool is_shell_program(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  return name == "bash" || name == "sh" || name == "zsh";
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
    for (std::size_t i = 1; i < words.size(); ++i) {
      state_.variables[words[i].str()] = Value();
      script_.exported.erase(words[i].str());
    }
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

}  // namespace pipesim
