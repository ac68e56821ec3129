#include "tools/interop/megatron/megatron_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/interop/megatron/megatron_flags.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostOfAnArgument = 1 << 20;  // products of three are whole numbers of 64 bits

bool is_argument_flag(std::string_view text) {
  return text.size() > 2 && text.starts_with("--") && std::isalpha(static_cast<unsigned char>(text[2])) != 0;
}

bool is_space_of_text(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// The lines of a text, without comments; each with its number.
template <typename Take>
void for_each_line(std::string_view text, Take take) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    while (!line.empty() && is_space_of_text(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_space_of_text(line.back())) line.remove_suffix(1);
    if (!line.empty() && line.front() != '#') take(line, number);
  }
}

enum class ArgumentsForm : std::uint8_t { Words, Script, Yaml };

// Arguments alone begin with one; `--flag: value` is YAML.
ArgumentsForm form_of_arguments(std::string_view text, const std::string& source) {
  if (source.ends_with(".yaml") || source.ends_with(".yml")) return ArgumentsForm::Yaml;
  std::string_view first;
  bool yaml = false;
  for_each_line(text, [&](std::string_view line, std::size_t) {
    if (first.empty()) first = line;
    if (!is_argument_flag(line) || yaml) return;
    const std::size_t end = line.find_first_of(": =\t");
    yaml = end != std::string_view::npos && line[end] == ':' &&
           (end + 1 == line.size() || is_space_of_text(line[end + 1]));
  });
  if (yaml) return ArgumentsForm::Yaml;
  return is_argument_flag(first) ? ArgumentsForm::Words : ArgumentsForm::Script;
}

// Words of a file that has nothing but arguments: quotes and comments are heeded, and nothing else.
std::vector<ShellWord> plain_words(std::string_view text, const std::string& source) {
  std::vector<ShellWord> words;
  ShellWord word{.file = source};
  bool open = false;
  std::size_t line = 1;
  const auto take = [&](std::string_view part) {
    if (!open) word = {"", source, line};
    open = true;
    word.text += part;
  };
  const auto end_word = [&] {
    if (open) words.push_back(word);
    open = false;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      const char next = text[++at];
      if (is_space_of_text(next)) {
        end_word();
      } else {
        take({&next, 1});
      }
      if (next == '\n') ++line;
    } else if (c == '"' || c == '\'') {
      const std::size_t end = text.find(c, at + 1);
      if (end == std::string_view::npos)
        throw InputError(fmt::format("{}:{}: a quote is not closed", source, line));
      const std::string_view inside = text.substr(at + 1, end - at - 1);
      take(inside);
      line += static_cast<std::size_t>(std::ranges::count(inside, '\n'));
      at = end;
    } else if (is_space_of_text(c)) {
      end_word();
      if (c == '\n') ++line;
    } else if (c == '#' && !open) {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else {
      take({&c, 1});
    }
  }
  end_word();
  return words;
}

// A word "--flag value" in one: the shell would pass it on, and no program takes it, so two are meant.
std::vector<ShellWord> taken_apart(const std::vector<ShellWord>& words) {
  std::vector<ShellWord> result;
  for (const ShellWord& word : words) {
    const bool several = word.text.starts_with("--") &&
                         word.text.find_first_of(" \t\n") != std::string::npos &&
                         word.text.find_first_of("=$") == std::string::npos;
    if (!several) {
      result.push_back(word);
      continue;
    }
    for (ShellWord& part : plain_words(word.text, word.file)) {
      part.line = word.line;
      result.push_back(std::move(part));
    }
  }
  return result;
}

// Where the program of a launch stands, such as pretrain_gpt.py.
std::size_t program_in(const std::vector<ShellWord>& command) {
  const auto program = std::ranges::find_if(command, [](const ShellWord& word) {
    return word.text.ends_with(".py") && !word.text.starts_with("--");
  });
  return static_cast<std::size_t>(program - command.begin());
}

bool describes_a_model(const std::vector<ShellWord>& command) {
  static constexpr std::array<std::string_view, 9> kMarks{"--num-layers",
                                                          "--hidden-size",
                                                          "--micro-batch-size",
                                                          "--num-attention-heads",
                                                          "--tensor-model-parallel-size",
                                                          "--batch-size",
                                                          "--encoder-num-layers",
                                                          "--yaml-cfg",
                                                          "--hybrid-layer-pattern"};
  return std::ranges::any_of(command, [](const ShellWord& word) {
    std::string flag = word.text.substr(0, word.text.find_first_of("= "));
    std::ranges::replace(flag, '_', '-');
    return std::ranges::find(kMarks, flag) != kMarks.end();
  });
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

MegatronFile MegatronFile::parse(std::string_view text, const std::string& source,
                                 const ShellMachine& machine) {
  MegatronFile file;
  file.source_ = source;
  switch (form_of_arguments(text, source)) {
    case ArgumentsForm::Words:
      file.read_words(plain_words(text, source), file.given_);
      break;
    case ArgumentsForm::Yaml:
      file.read_yaml(text);
      break;
    case ArgumentsForm::Script:
      file.read_script(text, machine);
      break;
  }
  if (file.given_.empty()) file.fail_without_arguments();
  return file;
}

MegatronFile MegatronFile::of_words(const std::vector<ShellWord>& words, const std::string& source) {
  MegatronFile file;
  file.source_ = source;
  file.read_words(words, file.given_);
  return file;
}

MegatronFile MegatronFile::load(const std::string& path, const ShellMachine& machine) {
  return parse(read_file(path), path, machine);
}

// The launch of a script: the first that describes a model.
void MegatronFile::read_script(std::string_view text, const ShellMachine& machine) {
  const ShellScript script = read_shell_script(text, source_, machine);
  written_ = script.written;
  variables_ = script.exported;
  missing_ = script.missing;
  for (const std::string& note : script.notes) {
    const bool own = note.starts_with(source_ + ":");
    notes_.push_back(own ? "line " + note.substr(source_.size() + 1) : note);
  }
  std::vector<const std::vector<ShellWord>*> launches;
  for (const std::vector<ShellWord>& command : script.commands) {
    if (program_in(command) < command.size() && describes_a_model(command)) launches.push_back(&command);
  }
  if (launches.empty()) {
    const bool starts_others = std::ranges::any_of(
        script.commands, [](const auto& command) { return program_in(command) < command.size(); });
    std::vector<ShellWord> words;
    for (const auto& command : script.commands) {
      if (is_argument_flag(command.front().text)) words.insert(words.end(), command.begin(), command.end());
    }
    if (words.empty() && !starts_others) words = script.values;
    if (!describes_a_model(words)) fail_without_launch(script);
    return read_words(words, given_);
  }
  const std::vector<ShellWord>& launch = *launches.front();
  const std::size_t program = program_in(launch);
  program_ = file_name_of(launch[program].text);
  const auto behind = launch.begin() + static_cast<std::ptrdiff_t>(program) + 1;
  read_words({launch.begin(), behind - 1}, launch_);
  for (auto word = launch.begin(); word != behind; ++word) {
    // "--env=NAME=VALUE" as well.
    const std::size_t begin = word->text.starts_with("--env=") ? std::string_view("--env=").size() : 0;
    const std::size_t end = word->text.find('=', begin);
    if (end != std::string::npos)
      variables_[word->text.substr(begin, end - begin)] = word->text.substr(end + 1);
  }
  read_words({behind, launch.end()}, given_);
  if (launches.size() > 1)
    notes_.push_back(fmt::format("line {}: of {} runs that are started, this one is taken",
                                 launch[program].line, launches.size()));
}

std::optional<std::string> MegatronFile::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

void MegatronFile::fail_without_launch(const ShellScript& script) const {
  const std::string needs =
      missing_.empty() ? ""
                       : fmt::format("{}: needs {}, which is not there", source_, fmt::join(missing_, ", "));
  for (const std::vector<ShellWord>& command : script.commands) {
    const std::size_t program = program_in(command);
    if (program == command.size()) continue;
    const ShellWord& word = command[program];
    const bool known = megatron_program(file_name_of(word.text)) != nullptr;
    if (known && !needs.empty()) throw InputError(needs);
    throw InputError(fmt::format("{}:{}: starts {}, which {}, allowed: a script that trains with Megatron-LM",
                                 word.file, word.line, file_name_of(word.text),
                                 known ? "is given no sizes of a model" : "is no program of Megatron-LM"));
  }
  if (!needs.empty()) throw InputError(needs);
  fail_without_arguments();
}

void MegatronFile::fail_without_arguments() const {
  throw InputError(fmt::format(
      "{}: has no arguments of Megatron-LM, allowed: a file with words such as --num-layers 32", source_));
}

// A flag, and the value that may stand with it as `--flag=value`. Underscores are as good as dashes.
void MegatronFile::read_words(const std::vector<ShellWord>& words, Arguments& to) {
  const ShellWord* at = nullptr;
  std::string flag;
  std::vector<std::string> values;
  const auto end_flag = [&] {
    if (at != nullptr) add(*at, flag, std::move(values), to);
    values.clear();
  };
  const std::vector<ShellWord> apart = taken_apart(words);
  for (const ShellWord& word : apart) {
    if (!is_argument_flag(word.text)) {
      if (!word.text.empty()) values.push_back(word.text);
      continue;
    }
    end_flag();
    at = &word;
    const std::size_t end = std::min(word.text.find('='), word.text.size());
    flag = word.text.substr(0, end);
    if (end + 1 < word.text.size()) values.push_back(word.text.substr(end + 1));
  }
  end_flag();
}

void MegatronFile::add(const ShellWord& word, const std::string& written, std::vector<std::string> values,
                       Arguments& to) {
  std::string flag = written;
  std::ranges::replace(flag, '_', '-');
  const std::string place = fmt::format("{}:{}", word.file, word.line);
  if (&to == &given_ && std::ranges::find(order_, flag) == order_.end()) order_.push_back(flag);
  const MegatronAlias* const alias = megatron_alias(flag);
  if (alias == nullptr) {
    to[flag] = {place, flag, std::move(values)};
    return;
  }
  const bool off = !values.empty() && (values.front() == "false" || values.front() == "False");
  std::vector<ShellWord> means = plain_words(alias->means, word.file);
  Given* last = nullptr;
  for (const ShellWord& part : means) {
    if (is_argument_flag(part.text)) {
      last = &to[part.text];
      *last = {place, flag, {}};
    } else {
      last->values.push_back(off ? "false" : part.text);
    }
  }
  if (alias->passes_values || off) last->values = std::move(values);
}

// Lines `--flag: value`; a value may go on in lines "- value" behind it.
void MegatronFile::read_yaml(std::string_view text) {
  ShellWord place{.file = source_};
  std::string flag;
  std::vector<std::string> values;
  const auto plain = [](std::string_view value) {
    std::string result;
    char quote = '\0';
    for (std::size_t i = 0; i < value.size(); ++i) {
      const char c = value[i];
      if (quote == '\0' && c == '#' && (i == 0 || is_space_of_text(value[i - 1]))) break;
      if (c == quote) {
        quote = '\0';
      } else if (quote == '\0' && (c == '"' || c == '\'') &&
                 result.find_first_not_of(" [") == std::string::npos) {
        quote = c;
      } else {
        result += c;
      }
    }
    while (!result.empty() && is_space_of_text(result.back())) result.pop_back();
    while (!result.empty() && is_space_of_text(result.front())) result.erase(0, 1);
    return result;
  };
  const auto end_flag = [&] {
    if (!flag.empty()) add(place, flag, std::move(values), given_);
    values.clear();
    flag.clear();
  };
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("- ") && !flag.empty()) {
      values.push_back(plain(line.substr(2)));
      return;
    }
    end_flag();
    const std::size_t colon = line.find(':');
    if (!is_argument_flag(line) || colon == std::string_view::npos) return;
    flag = line.substr(0, colon);
    place.line = number;
    const std::string value = plain(line.substr(colon + 1));
    const bool pattern = value.find_first_of("([") != std::string::npos;
    if (value.empty() || value == ">" || value == "|") return;
    const bool list =
        value.starts_with('[') && value.find('[', 1) == std::string::npos && value.ends_with(']');
    if (pattern && (!list || flag == "--moe-layer-freq")) return values.push_back(value);
    if (list) {
      std::string items = value.substr(1, value.size() - 2);
      std::ranges::replace(items, ',', ' ');
      for (const ShellWord& word : plain_words(items, source_)) values.push_back(word.text);
      return;
    }
    for (const ShellWord& word : plain_words(value, source_)) values.push_back(word.text);
  });
  end_flag();
}

const MegatronFile::Given* MegatronFile::find(std::string_view flag) const {
  const auto found = given_.find(flag);
  if (found == given_.end()) return nullptr;
  const std::vector<std::string>& values = found->second.values;
  if (!values.empty() && (values.front() == "false" || values.front() == "False")) return nullptr;
  return &found->second;
}

bool MegatronFile::given(std::string_view flag) const { return find(flag) != nullptr; }

std::optional<std::string> MegatronFile::text(std::string_view flag) const {
  const Given* given = find(flag);
  if (given == nullptr) return std::nullopt;
  return given->values.empty() ? "" : given->values.front();
}

std::vector<std::string> MegatronFile::texts(std::string_view flag) const {
  const Given* given = find(flag);
  return given == nullptr ? std::vector<std::string>() : given->values;
}

std::optional<std::string> MegatronFile::launch_text(std::string_view flag) const {
  const auto found = launch_.find(flag);
  if (found == launch_.end()) return text(flag);
  return found->second.values.empty() ? "" : found->second.values.front();
}

std::vector<std::string> MegatronFile::flags() const { return order_; }

std::string MegatronFile::modern(const std::string& flag) {
  const MegatronAlias* const alias = megatron_alias(flag);
  return alias == nullptr ? flag : std::string(alias->means.substr(0, alias->means.find(' ')));
}

std::optional<std::string> MegatronFile::file_named(const std::string& name) const {
  if (const auto written = written_.find(name); written != written_.end()) return written->second;
  if (name.empty() || name.find('$') != std::string::npos) return std::nullopt;
  const std::filesystem::path path = std::filesystem::path(source_).parent_path() / name;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return read_file(path);
}

std::optional<std::int64_t> MegatronFile::count(std::string_view flag, std::int64_t least) const {
  const std::optional<std::string> written = text(flag);
  if (!written) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = written->data() + written->size();
  const auto [stopped, error] = std::from_chars(written->data(), end, number);
  if (error == std::errc() && stopped == end && number >= least && number <= kMostOfAnArgument) return number;
  const bool unknown = written->find_first_of("$`") != std::string::npos;
  const bool argument = written->size() == 2 && written->front() == '$' &&
                        std::isdigit(static_cast<unsigned char>(written->back())) != 0;
  fail(flag, fmt::format("found \"{}\", allowed: a whole number from {} to {}{}{}", *written, least,
                         kMostOfAnArgument,
                         argument  ? "; the script is given it as an argument"
                         : unknown ? "; the file gives this variable of the shell no plain value"
                                   : "",
                         unknown && !missing_.empty()
                             ? fmt::format(", and {} is not there", fmt::join(missing_, ", "))
                             : ""));
}

std::int64_t MegatronFile::required(std::string_view flag) const {
  const auto number = count(flag);
  if (number) return *number;
  if (given("--use-checkpoint-args"))
    throw InputError(
        fmt::format("{}: {} is missing: --use-checkpoint-args takes it from a checkpoint, which is "
                    "not read",
                    source_, flag));
  throw InputError(
      fmt::format("{}: {} is missing{}", source_, flag,
                  missing_.empty() ? "" : fmt::format(", and so is {}", fmt::join(missing_, ", "))));
}

// -1: it is no number.
std::optional<double> MegatronFile::number(std::string_view flag) const {
  const std::optional<std::string> written = text(flag);
  if (!written) return std::nullopt;
  double number = 0;
  const char* const end = written->data() + written->size();
  const auto [stopped, error] = std::from_chars(written->data(), end, number);
  return error == std::errc() && stopped == end && number >= 0 ? number : -1;
}

std::optional<double> MegatronFile::rate(std::string_view flag) const {
  const std::optional<double> rate = number(flag);
  if (rate && (*rate < 0 || *rate >= 1))
    fail(flag, fmt::format("found \"{}\", allowed: a number from 0 up to 1", *text(flag)));
  return rate;
}

std::optional<double> MegatronFile::factor(std::string_view flag) const {
  const std::optional<double> factor = number(flag);
  if (factor && *factor <= 0) fail(flag, fmt::format("found \"{}\", allowed: a number above 0", *text(flag)));
  return factor;
}

std::optional<double> MegatronFile::real(std::string_view flag) const {
  const std::optional<double> real = number(flag);
  if (real && *real < 0) fail(flag, fmt::format("found \"{}\", allowed: a number from 0 on", *text(flag)));
  return real;
}

void MegatronFile::fail(std::string_view flag, const std::string& message) const {
  const auto found = given_.find(flag);
  if (found == given_.end()) throw InputError(fmt::format("{}: {}: {}", source_, flag, message));
  throw InputError(fmt::format("{}: {}: {}", found->second.place, found->second.written, message));
}

}  // namespace pipesim
