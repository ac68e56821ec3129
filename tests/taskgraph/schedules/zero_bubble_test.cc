#include <gmock/gmock.h>

#include <algorithm>

#include "tests/taskgraph/schedules/simulated_schedule.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Eq;
using testing::Le;

TEST(ZeroBubble, WeightGradientsFillBubbles) {
  for_each_pipeline_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    if (microbatches < devices) return;
    const Nanoseconds rest = times.forward + times.input - times.weight;
    const PipelineSchedule h1 = made_schedule("zb-h1", devices, microbatches);
    EXPECT_EQ(SimulatedSchedule(h1, times).bubble(times), (devices - 1) * rest);
    if (microbatches < 2 * devices) return;
    const PipelineSchedule h2 = made_schedule("zb-h2", devices, microbatches);
    EXPECT_EQ(SimulatedSchedule(h2, times).bubble(times), (devices - 1) * (rest - times.weight));
  });
}

// Qi et al.: no bubbles where all steps take equally long, and as much memory as 1f1b takes at most. The last
// device begins when all others have gone forward once.
TEST(ZeroBubbleV, HasNeitherBubblesNorMoreMemory) {
  const PassTimes& even = kPassTimes[0];
  for (std::int32_t devices = 1; devices <= 16; ++devices) {
    for (const std::int32_t microbatches :
         {2 * devices - 1, 2 * devices, 2 * devices + 1, 3 * devices + 2, 5 * devices}) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      const PipelineSchedule schedule = made_schedule("zb-v", devices, microbatches, 2);
      const SimulatedSchedule simulated(schedule, even);
      EXPECT_EQ(simulated.bubble(even), 0);
      EXPECT_EQ(simulated.timeline.makespan, 2 * microbatches * even.all() + (devices - 1) * even.forward);
      // The numbers count single stages: a device has two of them for each microbatch.
      EXPECT_THAT(in_flight(schedule), Each(Eq(2 * devices)));
    }
  }
}

TEST(ZeroBubbleV, IsNoWorseThanWithoutChunksInFewMicrobatches) {
  for_each_pipeline_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    const PipelineSchedule schedule = made_schedule("zb-v", devices, microbatches, 2);
    EXPECT_THAT(in_flight(schedule), Each(Le(2 * std::min(devices, microbatches))));
    if (times.input != times.weight) return;
    // One stage a device takes twice as long.
    const PassTimes twice{2 * times.forward, 2 * times.input, 2 * times.weight};
    EXPECT_LE(SimulatedSchedule(schedule, times).timeline.makespan,
              SimulatedSchedule(made_schedule("zb-h1", devices, microbatches), twice).timeline.makespan);
  });
}

}  // namespace
}  // namespace pipesim
