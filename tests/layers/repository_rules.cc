#include "tests/layers/repository_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>

namespace pipesim {
namespace {

constexpr std::size_t kMostLinesOfReadme = 40, kMostFiles = 30;

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

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
