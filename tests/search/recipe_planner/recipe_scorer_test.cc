#include "search/recipe_planner/recipe_scorer.h"

#include <gmock/gmock.h>

#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Gt;

// Frameworks and communicators leave less than the device has.
TEST(RatedRecipe, FitsWhereFrameworksLeaveEnough) {
  const Topology topology = make_topology("dgx-h100");
  const Bytes leave = topology.usable_memory(DeviceId(1), 8);
  ASSERT_LT(leave, topology.usable_memory(DeviceId(1)));
  std::vector<DeviceMemory> peaks(topology.num_devices());
  peaks[0].peak = Bytes(1'000'000'000);
  peaks[1].peak = leave, peaks[1].communicators = 8;
  RatedRecipe fits, exceeds;
  fits.take_memory(peaks, topology);
  EXPECT_EQ(fits.peak, leave);
  EXPECT_THAT(fits.share, DoubleNear(1, 1e-12));
  peaks[1].peak = topology.usable_memory(DeviceId(1));
  exceeds.take_memory(peaks, topology);
  EXPECT_THAT(exceeds.share, Gt(1));
}

TEST(RatedRecipe, IsReadFromAnotherProcessAsItWasWritten) {
  RatedRecipe written, read;
  written.bound.time = 5, written.evaluation.time = 7, written.peak = Bytes(11);
  written.share = 1.0 / 3;
  std::stringstream line;
  write_verdict(line, RecipeScorer::Verdict::Rated, written);
  EXPECT_EQ(read_verdict(line, read), RecipeScorer::Verdict::Rated);
  EXPECT_EQ(read.bound.time, written.bound.time);
  EXPECT_EQ(read.evaluation.time, written.evaluation.time);
  EXPECT_EQ(read.peak, written.peak);
  EXPECT_EQ(read.share, written.share);
}

// Two that take much together come one after the other; a small one waits for nothing.
TEST(SimulationMemory, LetsLargeSimulationsWait) {
  SimulationMemory memory;
  constexpr std::int64_t kPasses = 1'000;
  memory.learn(kPasses, Bytes(600'000'000));
  std::mutex mutex;
  std::vector<int> order;
  const auto note = [&](int number) {
    const std::scoped_lock lock(mutex);
    order.push_back(number);
  };
  std::thread second;
  {
    const SimulationMemory::Room large(memory, kPasses);
    { const SimulationMemory::Room small(memory, 1); }
    second = std::thread([&] {
      const SimulationMemory::Room room(memory, kPasses);
      note(2);
    });
    note(1);
  }
  second.join();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

}  // namespace
}  // namespace pipesim
