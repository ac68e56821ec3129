#include "sim/base/files.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

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

TEST_F(Files, WritesWhatALinkLeadsTo) {
  const fs::path path = folder_ / "plan.json", link = folder_ / "link", dangling = folder_ / "dangling";
  write_file(path, "one");
  fs::create_symlink("plan.json", link);
  fs::create_symlink("new.json", dangling);
  write_file(link, "two");
  write_file(dangling, "three");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(path), "two");
  EXPECT_TRUE(fs::is_symlink(dangling));
  EXPECT_EQ(read_file(folder_ / "new.json"), "three");
}

TEST_F(Files, ReplacesNoPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  std::thread reader([&] { EXPECT_EQ(read_file(pipe), "one"); });
  write_file(pipe, "one");
  reader.join();
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
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
