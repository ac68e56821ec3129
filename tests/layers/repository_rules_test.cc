#include "tests/layers/repository_rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string lines(std::size_t count) { return std::string(count, '\n'); }

TEST(RepositoryRules, HoldInTheWholeRepository) {
  const auto files = source_tree({".h", ".cc", ".cu", ".cuh", ".sh", "README.md"});
  ASSERT_GT(files.size(), 30U) << "the scan did not find the sources";
  for (const SourceFile& file : files) EXPECT_THAT(broken_file_rules(file), IsEmpty()) << file.path;
}

TEST(RepositoryRules, EachFolderOfSourcesSaysWhatItIs) {
  std::set<std::string> folders;
  for (const SourceFile& file : source_tree({".cc"})) folders.insert(file.folder());
  folders.erase("tests");
  for (const std::string& folder : folders) {
    const auto readme = std::filesystem::path(PIPESIM_SOURCE_DIR) / folder / "README.md";
    EXPECT_TRUE(std::filesystem::exists(readme)) << readme;
  }
}

TEST(RepositoryRules, CatchFilesThatAreTooLong) {
  EXPECT_THAT(broken_file_rules({"sim/a.cc", lines(500)}), IsEmpty());
  EXPECT_THAT(broken_file_rules({"sim/a.cc", lines(501)}),
              ElementsAre("sim/a.cc: has 501 lines, at most 500 are allowed"));
  EXPECT_THAT(broken_file_rules({"sim/a.h", "#pragma once\n" + lines(150)}),
              ElementsAre("sim/a.h: has 151 lines, at most 150 are allowed"));
  EXPECT_THAT(broken_file_rules({"sim/README.md", lines(41)}),
              ElementsAre("sim/README.md: has 41 lines, at most 40 are allowed"));
}

TEST(RepositoryRules, CatchTestsThatTestNothing) {
  EXPECT_THAT(broken_file_rules({"tests/sim/a_test.cc", "TEST(A, B) {}\n"}),
              ElementsAre("tests/sim/a_test.cc: tests nothing"));
  EXPECT_THAT(broken_file_rules({"tests/sim/a_test.cc", "TEST(A, B) { EXPECT_TRUE(f()); }\n"}), IsEmpty());
}

TEST(RepositoryRules, CatchUntidyText) {
  EXPECT_THAT(broken_file_rules({"sim/a.h", "int a;\n"}),
              ElementsAre("sim/a.h: does not start with #pragma once"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "int a;"}), ElementsAre("sim/a.cc: does not end in a newline"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "\tint a; \r\n"}),
              ElementsAre("sim/a.cc: has tabs", "sim/a.cc: has carriage returns"));
  EXPECT_THAT(broken_file_rules({"sim/a.cc", "int a; \n"}), ElementsAre("sim/a.cc: has trailing spaces"));
}

}  // namespace
}  // namespace pipesim
