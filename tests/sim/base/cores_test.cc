#include "sim/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

// Folders of control groups with what cpu.max says there.
class ControlGroups : public testing::Test {
 protected:
  void group(const std::string& path, const std::string& cpu_max) {
    std::filesystem::create_directories(folder_.path(path));
    if (!cpu_max.empty()) write_file(folder_.path(path.empty() ? "cpu.max" : path + "/cpu.max"), cpu_max);
  }
  [[nodiscard]] std::optional<int> cores(const std::string& path) const {
    return cores_of_control_group(folder_.path(), path);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ControlGroups, AllowTimeOfSomeCores) {
  group("two", "200000 100000\n");
  group("part", "150000 100000\n");
  group("little", "1000 100000\n");
  group("all", "max 100000\n");
  group("broken", "many\n");
  group("silent", "");
  EXPECT_EQ(cores("two"), 2);
  EXPECT_EQ(cores("part"), 2);
  EXPECT_EQ(cores("little"), 1);
  for (const char* free : {"all", "broken", "silent", "missing"})
    EXPECT_EQ(cores(free), std::nullopt) << free;
}

TEST_F(ControlGroups, TheTightestOnTheWayCounts) {
  group("a", "300000 100000\n");
  group("a/b", "max 100000\n");
  group("a/b/c", "500000 100000\n");
  EXPECT_EQ(cores("a/b/c"), 3);
  EXPECT_EQ(cores("a/b"), 3);
  group("", "100000 100000\n");
  EXPECT_EQ(cores("a/b/c"), 1);
}

TEST(Cores, AreThoseThatTheProcessMayRunOn) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int cores = available_cores();
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++c) {
    if (CPU_ISSET(c, &before)) CPU_SET(c, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(available_cores(), 1);
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace pipesim
