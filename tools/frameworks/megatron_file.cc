#include "tools/frameworks/megatron_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/files.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostOfAnArgument = 1 << 20;  // products of three are whole numbers of 64 bits

struct ShellWord {
  std::size_t line = 0;
  std::string text;
};

// The words of a shell script, without comments and quotes.
class ShellWords {
 public:
  ShellWords(std::string_view text, const std::string& source, std::size_t first_line = 1)
      : text_(text), source_(source), line_(first_line) {}

  std::vector<ShellWord> all() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        take_escaped();
      } else if (c == '"' || c == '\'') {
        take_quoted(c);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        end_word();
        if (c == '\n') ++line_;
        ++at_;
      } else if (c == '#' && !open_) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        take(c);
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    if (!open_) word_ = {line_, ""};
    open_ = true;
    word_.text += c;
    ++at_;
  }
  // A line that goes on, or a character that means itself.
  void take_escaped() {
    ++at_;
    if (text_[at_] != '\n') return take(text_[at_]);
    end_word();
    ++line_;
    ++at_;
  }
  void take_quoted(char quote) {
    const std::size_t begun = line_, end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos)
      throw InputError(fmt::format("{}:{}: a quote is not closed", source_, begun));
    if (!open_) word_ = {line_, ""};
    open_ = true;
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    word_.text += inside;
    line_ += static_cast<std::size_t>(std::ranges::count(inside, '\n'));
    at_ = end + 1;
  }
  void end_word() {
    if (open_) words_.push_back(std::move(word_));
    open_ = false;
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t line_, at_ = 0;
  bool open_ = false;
  ShellWord word_;
  std::vector<ShellWord> words_;
};

bool is_shell_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(
             text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

using ShellVariables = std::map<std::string, std::string, std::less<>>;

// With ${NAME}, ${NAME:-other} and $NAME replaced, where NAME has a plain value.
std::string expanded(std::string_view text, const ShellVariables& variables) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$' || at + 1 == text.size()) {
      result += text[at];
      continue;
    }
    const bool braced = text[at + 1] == '{';
    const std::size_t begin = at + (braced ? 2 : 1);
    std::size_t end = begin;
    while (end < text.size() && is_shell_name(text.substr(begin, end + 1 - begin))) ++end;
    const std::string_view name = text.substr(begin, end - begin);
    const std::size_t close = braced ? text.find('}', end) : end;
    const auto known = variables.find(name);
    const std::string_view rest =
        braced && close != std::string_view::npos ? text.substr(end, close - end) : std::string_view();
    const bool has_other = rest.starts_with(":-");
    if (name.empty() || close == std::string_view::npos || (!rest.empty() && !has_other) ||
        (known == variables.end() && !has_other)) {
      result += text[at];
      continue;
    }
    result += known != variables.end() ? known->second : std::string(rest.substr(2));
    at = braced ? close : close - 1;
  }
  return result;
}

// Takes NAME=value, NAME=( and NAME="--flag …" apart: plain values become variables, arguments words.
std::vector<ShellWord> without_assignments(const std::vector<ShellWord>& words, const std::string& source) {
  ShellVariables variables;
  std::vector<ShellWord> plain;
  for (const ShellWord& word : words) {
    const std::size_t equals = word.text.find('=');
    std::string_view name = std::string_view(word.text).substr(0, std::min(equals, word.text.size()));
    if (name.ends_with('+')) name.remove_suffix(1);
    if (equals == std::string::npos || !is_shell_name(name)) {
      const std::string text = expanded(word.text, variables);
      const bool several = text.starts_with("--") && text.find_first_of(" \t\n") != std::string::npos;
      if (!several) {
        plain.push_back({word.line, text});
        continue;
      }
      for (ShellWord& inner : ShellWords(text, source, word.line).all()) plain.push_back(std::move(inner));
      continue;
    }
    std::string value = expanded(std::string_view(word.text).substr(equals + 1), variables);
    if (value.starts_with('(')) value.erase(0, 1);
    if (value.find("--") == std::string::npos) {
      variables[std::string(name)] = value;
      continue;
    }
    for (ShellWord& inner : ShellWords(value, source, word.line).all()) plain.push_back(std::move(inner));
  }
  return plain;
}

// A flag, and the value that stands with it as `--flag=value` or `--flag:`. Underscores are as good as
// dashes.
bool is_argument_flag(std::string_view text) {
  return text.size() > 2 && text.starts_with("--") && std::isalpha(static_cast<unsigned char>(text[2])) != 0;
}

}  // namespace

MegatronFile MegatronFile::parse(std::string_view text, const std::string& source) {
  MegatronFile file;
  file.source_ = source;
  Given* last = nullptr;
  for (const ShellWord& word : without_assignments(ShellWords(text, source).all(), source)) {
    if (!is_argument_flag(word.text)) {
      std::string value = word.text;
      // The end of a list of the shell.
      if (value.ends_with(')') && value.find('(') == std::string::npos) value.pop_back();
      if (last != nullptr && !value.empty() && value != "(") last->values.push_back(value);
      continue;
    }
    const std::size_t end = std::min(word.text.find_first_of("=:)"), word.text.size());
    std::string flag = word.text.substr(0, end);
    std::ranges::replace(flag, '_', '-');
    last = &file.given_[flag];
    *last = {word.line, {}};
    const std::string value = end < word.text.size() ? word.text.substr(end + 1) : "";
    if (!value.empty()) last->values.push_back(value);
  }
  if (file.given_.empty())
    throw InputError(fmt::format(
        "{}: has no arguments of Megatron-LM, allowed: a file with words such as --num-layers 32", source));
  return file;
}

MegatronFile MegatronFile::load(const std::string& path) { return parse(read_file(path), path); }

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

std::optional<std::int64_t> MegatronFile::count(std::string_view flag, std::int64_t least) const {
  const std::optional<std::string> written = text(flag);
  if (!written) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = written->data() + written->size();
  const auto [stopped, error] = std::from_chars(written->data(), end, number);
  if (error == std::errc() && stopped == end && number >= least && number <= kMostOfAnArgument) return number;
  fail(flag, fmt::format("found \"{}\", allowed: a whole number from {} to {}{}", *written, least,
                         kMostOfAnArgument,
                         written->find('$') != std::string::npos
                             ? "; the file gives this variable of the shell no plain value"
                             : ""));
}

std::int64_t MegatronFile::required(std::string_view flag) const {
  const auto number = count(flag);
  if (!number) throw InputError(fmt::format("{}: {} is missing", source_, flag));
  return *number;
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
  const std::string place =
      found == given_.end() ? source_ : fmt::format("{}:{}", source_, found->second.line);
  throw InputError(fmt::format("{}: {}: {}", place, flag, message));
}

}  // namespace pipesim
