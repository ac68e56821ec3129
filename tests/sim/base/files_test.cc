#include "sim/base/files.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace pipesim {
namespace fs = std::filesystem;
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::temp_directory_path() / ("pipesim_files_test_" + std::to_string(::getpid()));
};

TEST_F(Files, WritesAndReplacesWhole) {
  const fs::path path = folder_ / "plan.json";
  write_file(path, "one");
  write_file(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1)
      << "no temporary file is left";
}

TEST_F(Files, SaysWhatIsWrong) {
  EXPECT_EQ(refusal([&] { read_file(folder_); }), folder_.string() + ": is a directory, a file is needed");
  const fs::path missing = folder_ / "none.json";
  EXPECT_EQ(refusal([&] { read_file(missing); }),
            missing.string() + ": can't be read: No such file or directory");
  const fs::path nowhere = folder_ / "no" / "plan.json";
  EXPECT_EQ(refusal([&] { write_file(nowhere, "x"); }),
            nowhere.string() + ": can't be written: there is no folder " + (folder_ / "no").string());
  EXPECT_EQ(refusal([&] { write_file(folder_, "x"); }),
            folder_.string() + ": is a directory, a file is needed");
}

TEST_F(Files, LeavesNothingInAFolderThatIsNotWritable) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(refusal([&] { write_file(folder_ / "plan.json", "x"); }), "accepted");
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace pipesim
