#include "tests/layers/repository_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace pipesim {
namespace {

constexpr std::size_t kMostLinesOfReadme = 40, kMostFiles = 30;

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

// The text of a comment that has the line for itself; nothing where the line is another one.
std::optional<std::string_view> comment_on(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with("//")) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of('/'), line.size()));
  if (line.starts_with("<")) line.remove_prefix(1);
  if (line.starts_with(" ")) line.remove_prefix(1);
  return line;
}

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// "by operator, the first": no sentence and no formula begins so.
bool begins_with_lower_words(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_lower);
  const auto word = static_cast<std::size_t>(end - text.begin());
  const bool two_words = word > 0 && word + 1 < text.size() && text[word] == ' ' && is_lower(text[word + 1]);
  return two_words && text.find('=') == std::string_view::npos &&
         !contains_any(std::string(text), {"·", "∏", "Σ"});
}

bool is_name(char c) { return c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0); }

std::string_view first_name(std::string_view text) {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_name) - text.begin()));
}

// The type of a parameter, without its name: "const Task&" for "const Task& task = {}".
std::string_view type_of(std::string_view parameter) {
  parameter = parameter.substr(0, parameter.find(" = "));
  parameter.remove_prefix(std::min(parameter.find_first_not_of(' '), parameter.size()));
  const auto name = std::find_if_not(parameter.rbegin(), parameter.rend(), is_name);
  const auto type = static_cast<std::size_t>(parameter.rend() - name);
  return type > 0 && parameter[type - 1] == ' ' ? parameter.substr(0, type - 1) : parameter;
}

// What tells apart overloads: "half(int, double)" for "int half(int a, double b) {".
std::string signature(std::string_view head) {
  const std::size_t open = head.find('(');
  const auto name = std::find_if_not(head.rend() - static_cast<std::ptrdiff_t>(open), head.rend(), is_name);
  std::string text(head.substr(static_cast<std::size_t>(head.rend() - name), open + 1));
  text.resize(text.find('(') + 1);
  std::size_t begin = open + 1;
  int depth = 0;
  for (std::size_t at = begin; at < head.size(); ++at) {
    const char c = head[at];
    if (depth == 0 && (c == ',' || c == ')')) {
      text += type_of(head.substr(begin, at - begin));
      text += c == ',' ? ", " : ")";
      begin = at + 1;
      if (c == ')') break;
    }
    depth += c == '<' || c == '(' ? 1 : 0;
    depth -= c == '>' || c == ')' ? 1 : 0;
  }
  return text;
}

// What a line of a namespace declares: "Task" for "struct Task {", "kMost" for "constexpr int kMost = 3;",
// a signature for the head of a function. Nothing where it is another line.
std::optional<std::string> declared_by(std::string_view line) {
  if (line.empty() || line.front() == ' ' || line.starts_with("static_assert")) return {};
  for (const std::string_view kind : {"struct ", "class ", "enum class ", "enum "}) {
    if (!line.starts_with(kind)) continue;
    return line.ends_with(';') ? std::nullopt
                               : std::optional<std::string>(first_name(line.substr(kind.size())));
  }
  const std::size_t open = line.find('('), value = line.find(" = ");
  if (line.starts_with("const") || line.starts_with("inline const")) {
    const std::size_t at = line.substr(0, std::min({open, value, line.find('{')})).rfind(" k");
    if (at != std::string_view::npos) return std::string(first_name(line.substr(at + 1)));
  }
  const bool head = (line.ends_with(" {") || line.ends_with(");")) && open != std::string_view::npos &&
                    open > 0 && is_name(line[open - 1]) && open < value;
  return head ? std::optional<std::string>(signature(line)) : std::nullopt;
}

// Calls back with the names that a file's namespaces declare, each behind the named namespaces that it is in,
// and with whether it is in an anonymous one.
void for_each_name(const SourceFile& file, const std::function<void(std::string, bool)>& call) {
  std::vector<std::string> spaces;
  std::istringstream lines(file.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("namespace ") && line.ends_with("{")) {
      spaces.push_back(line);
    } else if (line.starts_with("}  // namespace") && !spaces.empty()) {
      spaces.pop_back();
    } else if (const auto name = spaces.empty() ? std::nullopt : declared_by(line)) {
      const bool hidden = spaces.back() == "namespace {";
      const std::span named(spaces.begin(), spaces.end() - (hidden ? 1 : 0));
      call(fmt::format("{}{}", fmt::join(named, ""), *name), hidden);
    }
  }
}

// The sources that may be one unit of compilation: those of a top-level folder, or of its tests or
// benchmarks.
std::string folder_of_unit(const std::string& path) {
  std::size_t begin = 0;
  for (const std::string_view above : {"tests/", "tests/bench/"}) {
    if (path.starts_with(above)) begin = above.size();
  }
  return path.substr(0, path.find('/', begin));
}

}  // namespace

std::vector<std::string> clashing_names(std::span<const SourceFile> files) {
  std::map<std::string, std::string> declared;                       // by the function's name: a header
  std::map<std::pair<std::string, std::string>, std::string> first;  // by folder and name: a file
  std::vector<std::string> clashes;
  const auto found = [&](const std::string& name, const std::string& there, const std::string& here) {
    clashes.push_back(fmt::format("{}: is in {} and in {}", name.substr(name.rfind(" {") + 2), there, here));
  };
  for (const SourceFile& file : files) {
    if (!file.is_header()) continue;
    for_each_name(file, [&](const std::string& name, bool) {
      if (name.ends_with(")")) declared.try_emplace(name, file.path);
    });
  }
  for (const SourceFile& file : files) {
    for_each_name(file, [&](const std::string& name, bool hidden) {
      if (!hidden) return;
      const auto [before, isnew] = first.try_emplace({folder_of_unit(file.path), name}, file.path);
      if (!isnew && before->second != file.path) found(name, before->second, file.path);
      const auto header = declared.find(name);
      if (header != declared.end() && !header->second.starts_with("tests/"))
        found(name, header->second, file.path);
    });
  }
  return clashes;
}

std::vector<std::string> comments_without_subject(const SourceFile& file) {
  std::vector<std::string> broken;
  bool goes_on = false;
  std::size_t number = 0;
  std::istringstream lines(file.text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::optional<std::string_view> text = comment_on(line);
    const bool first = text && !goes_on;
    goes_on = text.has_value();
    if (!text) continue;
    if (begins_with_any(*text, {"Of ", "Or ", "But "}) ||
        (first && (begins_with_any(*text, {"As "}) || begins_with_lower_words(*text))))
      broken.push_back(fmt::format("{}:{}: \"{}\" does not begin as a sentence", file.path, number, *text));
  }
  return broken;
}

std::vector<std::string> broken_file_rules(const SourceFile& file) {
  std::vector<std::string> broken;
  const auto refuse = [&](const std::string& reason) { broken.push_back(file.path + ": " + reason); };
  if (file.path.ends_with("README.md") && file.lines() > kMostLinesOfReadme)
    refuse(fmt::format("has {} lines, at most {} are allowed", file.lines(), kMostLinesOfReadme));
  if (file.path.ends_with("_test.cc") && !contains_any(file.text, {"EXPECT_", "ASSERT_"}))
    refuse("tests nothing");
  if (file.is_header() && !file.text.starts_with("#pragma once\n"))
    refuse("does not start with #pragma once");
  if (file.text.empty() || file.text.back() != '\n') refuse("does not end in a newline");
  if (contains_any(file.text, {"\t"})) refuse("has tabs");
  if (contains_any(file.text, {" \n"})) refuse("has trailing spaces");
  if (contains_any(file.text, {"\r"})) refuse("has carriage returns");
  return broken;
}

std::vector<std::string> crowded_folders(std::span<const SourceFile> files) {
  std::map<std::string, std::size_t> count;
  for (const SourceFile& file : files) ++count[file.path.substr(0, file.path.rfind('/'))];
  std::vector<std::string> crowded;
  for (const auto& [folder, number] : count) {
    if (number > kMostFiles)
      crowded.push_back(fmt::format("{}: has {} files, at most {} are allowed", folder, number, kMostFiles));
  }
  return crowded;
}

}  // namespace pipesim
