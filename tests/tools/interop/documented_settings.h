#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.h"

namespace pipesim {

/// The settings that a framework documents, from tests/tools/interop/documented/NAME.txt.
class DocumentedSettings {
 public:
  /// `number`: of the version, for lists that say which have a setting.
  explicit DocumentedSettings(const std::string& framework, int number = 0) {
    std::istringstream lines(
        read_file(PIPESIM_SOURCE_DIR "/tests/tools/interop/documented/" + framework + ".txt"));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.starts_with('#') || !is_of_version(line, number)) continue;
      line = line.substr(0, line.find("  #"));
      std::istringstream words(line);
      std::string name;
      words >> name;
      std::vector<std::string>& allowed = allowed_[name];
      for (std::string word; words >> word;) allowed.push_back(word);
    }
  }

  /// Fails the test unless the setting is documented with such values.
  void expect(const std::string& name, const std::vector<std::string>& values) const {
    const auto found = allowed_.find(name);
    ASSERT_NE(found, allowed_.end()) << name << " is not documented";
    std::vector<std::string> allowed = found->second;
    const bool several = !allowed.empty() && allowed.back() == "...";
    if (several) allowed.pop_back();
    if (several) {
      EXPECT_FALSE(values.empty()) << name;
    } else {
      EXPECT_EQ(values.size(), allowed.empty() ? 0U : 1U) << name;
    }
    for (const std::string& value : values) EXPECT_TRUE(is_allowed(value, allowed)) << name << " " << value;
  }

 private:
  // "--rope-type rope yarn  # from 14".
  static bool is_of_version(const std::string& line, int number) {
    const std::size_t at = line.find("  # ");
    if (at == std::string::npos) return true;
    std::istringstream words(line.substr(at + 4));
    std::string word;
    int bound = 0;
    words >> word >> bound;
    EXPECT_TRUE(words && (word == "from" || word == "to")) << line;
    return word == "from" ? number >= bound : number <= bound;
  }
  static bool is_number(const std::string& text, const std::string& characters) {
    return !text.empty() && text.find_first_not_of(characters) == std::string::npos;
  }
  static bool is_allowed(const std::string& value, const std::vector<std::string>& allowed) {
    if (allowed == std::vector<std::string>{"N"}) return is_number(value, "0123456789");
    if (allowed == std::vector<std::string>{"X"}) return is_number(value, "0123456789.e-");
    if (allowed == std::vector<std::string>{"TEXT"}) return !value.empty();
    return std::ranges::find(allowed, value) != allowed.end();
  }
  std::map<std::string, std::vector<std::string>> allowed_;
};

}  // namespace pipesim
