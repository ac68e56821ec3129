#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "tests/taskgraph/schedules/simulated_schedule.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Eq;

// A schedule in which steps beside each other are one step, whose results come when both are done: what
// DualPipe's formula counts on. The longest that a device waits between its first and its last step.
Nanoseconds bubble_of_pairs(const PipelineSchedule& schedule, std::int32_t stages, const PassTimes& times) {
  std::map<std::tuple<bool, std::int32_t, std::int32_t>, Nanoseconds> ends;  // by forward, microbatch, stage
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<Nanoseconds> first(schedule.size(), -1), free(schedule.size(), 0), work(schedule.size(), 0);
  const auto ready = [&](const PipelineStep& s) -> std::optional<Nanoseconds> {
    const bool forward = s.kind == StepKind::Forward;
    const std::int32_t before = s.stage + (forward ? -1 : 1);
    const bool any = s.kind != StepKind::BackwardWeight && before >= 0 && before < stages;
    const auto found = any ? ends.find({forward, s.microbatch, before}) : ends.end();
    if (any && found == ends.end()) return std::nullopt;
    const Nanoseconds from_before = any ? found->second : 0;
    return forward ? from_before : std::max(from_before, ends.at({true, s.microbatch, s.stage}));
  };
  const auto advance = [&](std::size_t d) {
    const std::vector<PipelineStep>& steps = schedule[d];
    const std::size_t end = next[d] + (next[d] + 1 < steps.size() && steps[next[d] + 1].beside ? 2 : 1);
    Nanoseconds begin = free[d], takes = 0;
    for (std::size_t i = next[d]; i < end; ++i) {
      const auto at = ready(steps[i]);
      if (!at) return false;
      begin = std::max(begin, *at);
      takes += times.of(steps[i].kind);
    }
    if (first[d] < 0) first[d] = begin;
    free[d] = begin + takes;
    work[d] += takes;
    for (; next[d] < end; ++next[d]) {
      const PipelineStep& s = steps[next[d]];
      if (s.kind != StepKind::BackwardWeight)
        ends[{s.kind == StepKind::Forward, s.microbatch, s.stage}] = free[d];
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < schedule.size(); ++d) {
      while (next[d] < schedule[d].size() && advance(d)) moved = true;
    }
  }
  Nanoseconds most = 0;
  for (std::size_t d = 0; d < schedule.size(); ++d) {
    EXPECT_EQ(next[d], schedule[d].size()) << "devices wait for each other";
    most = std::max(most, free[d] - first[d] - work[d]);
  }
  return most;
}

// DeepSeek-V3's report, section 3.2.1: of p devices, the bubble is (p/2 − 1)(F&B + B − 3W), with F&B the time
// of a pair and B that of a whole backward; p + 1 microbatches' activations are kept. The half of it in a V
// has the bubble of twice as many devices, and keeps as many activations of single stages.
TEST(DualPipe, HasTheBubblesAndKeepsWhatItsFormulasSay) {
  for (const PassTimes& times : kPassTimes) {
    const Nanoseconds backward = times.input + times.weight;
    for (const std::int32_t half : {1, 2, 3, 4, 8}) {
      const Nanoseconds formula = (half - 1) * ((times.forward + backward) + backward - 3 * times.weight);
      for (const std::int32_t more : {0, 1, 2, 5, 3 * half}) {
        SCOPED_TRACE(testing::Message() << half << ", " << more << " more, " << times.weight);
        const PipelineSchedule whole = made_schedule("dualpipe", 2 * half, 4 * half + 2 * more),
                               in_v = made_schedule("dualpipe-v", half, 2 * half + more, 2);
        EXPECT_THAT(in_flight(whole), Each(Eq(2 * half + 1)));
        EXPECT_THAT(in_flight(in_v), Each(Eq(2 * half + 1)));
        // The first pair in the middle is none, which the formula does not count on; it matters where weight
        // gradients take less time than those of inputs.
        const Nanoseconds less = (half - 1) * (times.input - times.weight);
        for (const Nanoseconds bubble :
             {bubble_of_pairs(whole, 2 * half, times), bubble_of_pairs(in_v, 2 * half, times)}) {
          EXPECT_LE(bubble, formula);
          EXPECT_GE(bubble, formula - less);
        }
      }
    }
  }
}

TEST(DualPipe, PairsForwardWithBackwardOfTheOtherStream) {
  for (const auto& [name, devices, chunks] : {std::tuple("dualpipe", 8, 1), std::tuple("dualpipe-v", 4, 2)}) {
    const PipelineSchedule schedule = made_schedule(name, devices, 24, chunks);
    for (const std::vector<PipelineStep>& steps : schedule) {
      std::int32_t pairs = 0;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!steps[i].beside) continue;
        ++pairs;
        ASSERT_GT(i, 0U);
        EXPECT_FALSE(steps[i - 1].beside);
        EXPECT_EQ(steps[i - 1].kind, StepKind::Forward);
        EXPECT_EQ(steps[i].kind, StepKind::Backward);
        EXPECT_NE(steps[i - 1].stage, steps[i].stage);
      }
      // All but those with which the devices fill up and run dry.
      const std::int32_t in_a_stream = chunks == 1 ? 12 : 24, places = 4;
      EXPECT_GE(pairs, 2 * (in_a_stream - 2 * places) + places);
    }
  }
}

}  // namespace
}  // namespace pipesim
