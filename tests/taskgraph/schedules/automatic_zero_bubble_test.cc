#include "taskgraph/schedules/automatic_zero_bubble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "tests/seeds.h"
#include "tests/taskgraph/schedules/simulated_schedule.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Le;

TEST(AutomaticZeroBubble, KeepsItsLimit) {
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; microbatches += sanitized ? 9 : 3) {
      for (std::int32_t limit = 1; limit <= 2 * devices + 1; ++limit) {
        const PipelineSchedule schedule =
            made_schedule(fmt::format("zb-auto:{}", limit), devices, microbatches);
        EXPECT_THAT(in_flight(schedule), Each(Le(limit)));
        for (const PassTimes& times : kPassTimes)
          EXPECT_GE(SimulatedSchedule(schedule, times).timeline.makespan, microbatches * times.all());
      }
    }
  }
}

TEST(AutomaticZeroBubble, IsNoWorseThanTheOnesMadeByHand) {
  const PassTimes& times = kPassTimes[0];
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; microbatches += sanitized ? 5 : 1) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      const auto bubble = [&](const std::string& name) {
        return SimulatedSchedule(made_schedule(name, devices, microbatches), times).bubble(times);
      };
      const Nanoseconds as_1f1b = bubble(fmt::format("zb-auto:{}", devices));
      EXPECT_LE(as_1f1b, bubble("zb-h1"));
      EXPECT_LE(bubble(fmt::format("zb-auto:{}", 2 * devices - 1)), bubble("zb-h2"));
      const Nanoseconds twice = bubble(fmt::format("zb-auto:{}", 2 * devices));
      EXPECT_LE(twice, as_1f1b);
      if (microbatches >= 2 * devices) {
        EXPECT_EQ(twice, 0);
      }
    }
  }
}

// All orders in which a device that never holds more than `limit` can take its steps, earlier microbatches
// first.
std::vector<std::vector<PipelineStep>> all_orders(std::int32_t stage, std::int32_t microbatches,
                                                  std::int32_t limit) {
  std::vector<std::vector<PipelineStep>> orders;
  std::vector<PipelineStep> order;
  const std::function<void(std::int32_t, std::int32_t, std::int32_t)> go_on =
      [&](std::int32_t forward, std::int32_t input, std::int32_t weight) {
        if (weight == microbatches) return orders.push_back(order);
        const auto take = [&](StepKind kind, std::int32_t f, std::int32_t i, std::int32_t w) {
          order.push_back({kind, kind == StepKind::Forward ? f - 1 : (w > weight ? w : i) - 1, stage});
          go_on(f, i, w);
          order.pop_back();
        };
        if (forward < microbatches && forward - weight < limit)
          take(StepKind::Forward, forward + 1, input, weight);
        if (input < forward) take(StepKind::BackwardInput, forward, input + 1, weight);
        if (weight < input) take(StepKind::BackwardWeight, forward, input, weight + 1);
      };
  go_on(0, 0, 0);
  return orders;
}

// The longest that a device of equal stages waits between its first and last step of one unit each; nothing
// where the devices wait for each other for ever.
std::optional<std::int32_t> unit_bubble(const PipelineSchedule& schedule) {
  const auto stages = static_cast<std::int32_t>(schedule.size());
  std::map<std::tuple<bool, std::int32_t, std::int32_t>, std::int32_t> ends;  // by forward, microbatch, stage
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<std::int32_t> first(schedule.size(), -1), free(schedule.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < schedule.size(); ++d) {
      for (; next[d] < schedule[d].size(); ++next[d], moved = true) {
        const PipelineStep& s = schedule[d][next[d]];
        const bool forward = s.kind == StepKind::Forward;
        const std::int32_t before = s.stage + (forward ? -1 : 1);
        if (s.kind != StepKind::BackwardWeight && before >= 0 && before < stages) {
          const auto found = ends.find({forward, s.microbatch, before});
          if (found == ends.end()) break;
          free[d] = std::max(free[d], found->second);
        }
        if (first[d] < 0) first[d] = free[d];
        ++free[d];
        if (s.kind != StepKind::BackwardWeight) ends[{forward, s.microbatch, s.stage}] = free[d];
      }
    }
  }
  std::int32_t most = 0;
  for (std::size_t d = 0; d < schedule.size(); ++d) {
    if (next[d] < schedule[d].size()) return std::nullopt;
    most = std::max(most, free[d] - first[d] - static_cast<std::int32_t>(schedule[d].size()));
  }
  return most;
}

TEST(AutomaticZeroBubble, IsTheBestOfAllOrdersOfTinyPipelines) {
  struct Case {
    std::int32_t devices, microbatches;
  };
  for (const Case& c : {Case{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}}) {
    const std::int32_t devices = c.devices, microbatches = c.microbatches;
    for (std::int32_t limit = 1; limit <= 2 * devices; ++limit) {
      SCOPED_TRACE(testing::Message()
                   << devices << " devices, " << microbatches << " microbatches, limit " << limit);
      std::optional<std::int32_t> least;
      PipelineSchedule schedule(static_cast<std::size_t>(devices));
      const std::function<void(std::int32_t)> choose = [&](std::int32_t stage) {
        if (stage == devices) {
          const std::optional<std::int32_t> bubble = unit_bubble(schedule);
          if (bubble && (!least || *bubble < *least)) least = bubble;
          return;
        }
        for (auto& order : all_orders(stage, microbatches, limit)) {
          schedule[static_cast<std::size_t>(stage)] = std::move(order);
          choose(stage + 1);
        }
      };
      choose(0);
      const PipelineSchedule found = made_schedule(fmt::format("zb-auto:{}", limit), devices, microbatches);
      EXPECT_EQ(unit_bubble(found), least);
      EXPECT_EQ(SimulatedSchedule(found, {1, 1, 1}).bubble({1, 1, 1}), least);
    }
  }
}

// The heuristic with other times than the units that plans use: it never holds more, and transfers are
// foreseen.
TEST(AutomaticZeroBubble, Foresees) {
  for (const ZeroBubbleTimes& times : {ZeroBubbleTimes{10, 12, 8, 1}, {185, 181, 93, 6}, {10, 10, 10, 5}}) {
    for (const std::int32_t limit : {4, 8}) {
      const PipelineSchedule schedule = automatic_zero_bubble({4, 12, 1, limit}, times);
      EXPECT_THAT(in_flight(schedule), Each(Le(limit)));
      EXPECT_GE(SimulatedSchedule(schedule, kPassTimes[0]).timeline.makespan, 12 * kPassTimes[0].all());
    }
  }
  const PassTimes uneven{10, 15, 5};
  const PipelineSchedule for_them = automatic_zero_bubble({4, 16, 1, 4}, {10, 15, 5, 0});
  EXPECT_LE(SimulatedSchedule(for_them, uneven).bubble(uneven),
            SimulatedSchedule(made_schedule("zb-auto:4", 4, 16), uneven).bubble(uneven));
}

}  // namespace
}  // namespace pipesim
