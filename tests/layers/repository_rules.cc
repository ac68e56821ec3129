#include "tests/layers/repository_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace pipesim {
namespace {

std::size_t most_lines(const SourceFile& file) {
  if (file.path.ends_with("README.md")) return 40;
  return file.is_header() ? 150 : 500;
}

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

std::vector<std::string> broken_file_rules(const SourceFile& file) {
  std::vector<std::string> broken;
  const auto refuse = [&](const std::string& reason) { broken.push_back(file.path + ": " + reason); };
  if (file.lines() > most_lines(file))
    refuse(fmt::format("has {} lines, at most {} are allowed", file.lines(), most_lines(file)));
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

}  // namespace pipesim
