#include "tests/layers/repository_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

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

}  // namespace

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
