#include "tests/fuzz/parsers.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <string>

#include "sim/base/files.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const FuzzedParser& parser) {
  return fs::path(PIPESIM_SOURCE_DIR) / "tests/fuzz/inputs" / parser.name;
}

class Fuzzed : public testing::TestWithParam<FuzzedParser> {};

// Files that start with "seed" show what the parser reads; all others were found by tools/fuzz, or are
// refused.
TEST_P(Fuzzed, ParserEndsOnEveryInputThatIsKept) {
  std::size_t seeds = 0;
  for (const auto& entry : fs::directory_iterator(folder_of(GetParam()))) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    bool read = false;
    EXPECT_NO_THROW(read = GetParam().reads(read_file(entry.path())));
    if (!name.starts_with("seed")) continue;
    ++seeds;
    EXPECT_TRUE(read) << "a seed must be readable; README.md says how it was made";
  }
  EXPECT_GT(seeds, 0U);
}

INSTANTIATE_TEST_SUITE_P(Parsers, Fuzzed, testing::ValuesIn(fuzzed_parsers().begin(), fuzzed_parsers().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(FuzzedInputs, EveryFolderOfInputsHasItsParser) {
  std::set<std::string> folders, parsers;
  for (const auto& entry : fs::directory_iterator(fs::path(PIPESIM_SOURCE_DIR) / "tests/fuzz/inputs"))
    folders.insert(entry.path().filename().string());
  for (const FuzzedParser& parser : fuzzed_parsers()) parsers.emplace(parser.name);
  EXPECT_EQ(folders, parsers);
}

}  // namespace
}  // namespace pipesim
