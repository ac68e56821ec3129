#include "sim/base/out_of_memory.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <new>
#include <string>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

OutOfMemory while_counting() { return OutOfMemory("out of memory while counting"); }
OutOfMemory while_running() { return OutOfMemory("out of memory while running"); }

TEST(OutOfMemory, SaysWhatWasBeingMade) {
  EXPECT_EQ(with_memory(while_counting, [] { return 3; }), 3);
  EXPECT_EQ(refusal<OutOfMemory>([] { with_memory(while_counting, [] { throw std::bad_alloc(); }); }),
            "out of memory while counting");
  EXPECT_EQ(refusal([] { with_memory(while_counting, [] { throw InputError("a.json: no"); }); }),
            "a.json: no");
}

TEST(OutOfMemory, TheInnermostSpeaksInWhateverThread) {
  const auto counts = [] { with_memory(while_counting, [] { throw std::bad_alloc(); }); };
  EXPECT_EQ(refusal<OutOfMemory>([&] { with_memory(while_running, counts); }),
            "out of memory while counting");
  EXPECT_EQ(refusal<OutOfMemory>(
                [&] { with_memory(while_running, [&] { std::async(std::launch::async, counts).get(); }); }),
            "out of memory while counting");
}

TEST(OutOfMemory, TellsTheLimitAndWhatHelps) {
  EXPECT_THAT(
      std::string(out_of_memory("counting sheep (12 so far)", "Count fewer sheep").what()),
      testing::MatchesRegex("out of memory while counting sheep \\(12 so far\\); (this host has|ulimit -v "
                            "allows|the control group allows) [0-9.]+ [kMGT]?B\\. Count fewer sheep"));
}

// A host as its files show it.
class MemoryLimits : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& content) const {
    const std::filesystem::path path = folder_.path(file);
    std::filesystem::create_directories(path.parent_path());
    write_file(path, content);
  }
  [[nodiscard]] std::string limit() const {
    const std::optional<MemoryLimit> found = memory_limit(folder_.path());
    return found ? found->str() : "none";
  }
  TemporaryFolder folder_;
};

TEST_F(MemoryLimits, AreNotKnownWhereNothingTells) { EXPECT_EQ(limit(), "none"); }

TEST_F(MemoryLimits, AreThoseOfTheHost) {
  write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n");
  EXPECT_EQ(limit(), "4.1 GB are left of the 16.4 GB that this host has");
}

TEST_F(MemoryLimits, AreThoseOfTheTightestControlGroup) {
  write("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    4000000 kB\n");
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "9000000000\n");
  write("sys/fs/cgroup/jobs/memory.max", "5000000000\n");
  write("sys/fs/cgroup/jobs/memory.current", "4000000000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 3\ninactive_file 1000000000\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "4000000000\n");
  write("sys/fs/cgroup/jobs/one/memory.current", "1000000000\n");
  EXPECT_EQ(limit(), "2 GB are left of the 5 GB that the control group allows");
}

}  // namespace
}  // namespace pipesim
