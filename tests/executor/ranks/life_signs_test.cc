#include "executor/ranks/life_signs.h"

#include <gmock/gmock.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/files.h"
#include "tests/executor/ranks/rendezvous/meeting_folder.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Rank 1 is a process of this host that lives, the others are of other hosts; all but 2 write nothing more, 3
// since it has left.
TEST(LifeSigns, SilenceIsCountedInLooksAndOnlyOfProcessesThatCannotBeSeen) {
  const MeetingFolder folder("life_signs");
  const auto file = [&](int rank) { return folder.file("alive." + std::to_string(rank)); };
  write_file(file(1), "7" + LifeSigns::of_failure().substr(std::string("failed").size()));
  write_file(file(3), "7 1 another/pid:[1] a");
  write_file(folder.file("bye.3"), "");
  write_file(file(4), "7 1 another/pid:[1] b");
  int looks_at_2 = 0, looks_at_4 = 0;
  std::vector<std::pair<int, std::string>> deaths;
  std::promise<void> died;
  LifeSigns::Duties duties;
  duties.size = 5;
  duties.pause = std::chrono::milliseconds(1);
  duties.sign = [&](int rank) {
    if (rank == 2) write_file(file(2), std::to_string(++looks_at_2) + " 1 another/pid:[1] a");
    if (rank == 4) ++looks_at_4;
    return file(rank);
  };
  duties.left = [&](int rank) { return folder.file("bye." + std::to_string(rank)); };
  duties.on_death = [&](int rank, const std::string& host) {
    deaths.emplace_back(rank, host);
    died.set_value();
  };
  {
    const LifeSigns signs(std::move(duties));
    died.get_future().wait();
  }
  EXPECT_THAT(deaths, ElementsAre(Pair(4, "b")));
  EXPECT_EQ(looks_at_4, 1 + 60);
}

}  // namespace
}  // namespace pipesim
