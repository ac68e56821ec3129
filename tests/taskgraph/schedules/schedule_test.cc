#include "taskgraph/schedules/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "sim/base/errors.h"
#include "sim/simulate.h"
#include "sim/task_dag.h"
#include "taskgraph/schedules/automatic_zero_bubble.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Eq;
using testing::HasSubstr;
using testing::Le;

/// Times of one microbatch in one stage.
struct PassTimes {
  Nanoseconds forward, input, weight;  ///< backward takes the last two together
  [[nodiscard]] Nanoseconds of(StepKind kind) const {
    if (kind == StepKind::Forward) return forward;
    if (kind == StepKind::Backward) return input + weight;
    return kind == StepKind::BackwardInput ? input : weight;
  }
  [[nodiscard]] Nanoseconds all() const { return forward + input + weight; }
};

// A schedule of equal stages without transfers, as the engine runs it.
struct Simulated {
  Simulated(PipelineSchedule steps_by_device, const PassTimes& times) : schedule(std::move(steps_by_device)) {
    TaskDag dag;
    std::map<std::tuple<bool, std::int32_t, std::int32_t>, TaskId> forward_or_input;
    for (std::size_t d = 0; d < schedule.size(); ++d) {
      for (const PipelineStep& s : schedule[d]) {
        const TaskId task = dag.add_task({0, dag.num_tasks()}, times.of(s.kind), LaneId(d));
        tasks.push_back(task);
        const bool forward = s.kind == StepKind::Forward;
        if (s.kind == StepKind::BackwardWeight) continue;
        EXPECT_TRUE(forward_or_input.emplace(std::tuple(forward, s.microbatch, s.stage), task).second);
      }
    }
    std::int32_t last = 0;
    for (const std::vector<PipelineStep>& steps : schedule) {
      for (const PipelineStep& s : steps) last = std::max(last, s.stage);
    }
    const auto wait = [&](bool forward, const PipelineStep& s, std::int32_t stage, TaskId task) {
      if (stage >= 0 && stage <= last)
        dag.add_edge(forward_or_input.at({forward, s.microbatch, stage}), task);
    };
    std::size_t next = 0;
    for (const std::vector<PipelineStep>& steps : schedule) {
      for (std::size_t i = 0; i < steps.size(); ++i, ++next) {
        const PipelineStep& s = steps[i];
        if (i > 0) dag.add_edge(tasks[next - 1], tasks[next]);
        if (s.kind == StepKind::Forward) {
          wait(true, s, s.stage - 1, tasks[next]);
        } else if (s.kind == StepKind::BackwardWeight) {
          wait(false, s, s.stage, tasks[next]);
        } else {
          wait(true, s, s.stage, tasks[next]);
          wait(false, s, s.stage + 1, tasks[next]);
        }
      }
    }
    dag.finish();
    timeline = simulate(dag);
  }

  // The longest that a device waits between its first and its last step.
  [[nodiscard]] Nanoseconds bubble(const PassTimes& times) const {
    Nanoseconds most = 0;
    std::size_t first = 0;
    for (const std::vector<PipelineStep>& steps : schedule) {
      Nanoseconds work = 0;
      for (const PipelineStep& s : steps) work += times.of(s.kind);
      const std::size_t last = first + steps.size() - 1;
      most = std::max(most, timeline.end[last] - timeline.start[first] - work);
      first += steps.size();
    }
    return most;
  }

  PipelineSchedule schedule;
  std::vector<TaskId> tasks;  // in the order of devices and steps
  Timeline timeline;
};

// By device: the most microbatches whose activations it holds, of all its stages together.
std::vector<std::int32_t> in_flight(const PipelineSchedule& schedule) {
  std::vector<std::int32_t> most;
  for (const std::vector<PipelineStep>& steps : schedule) {
    std::int32_t now = 0, peak = 0;
    for (const PipelineStep& s : steps) {
      if (s.kind == StepKind::Forward) peak = std::max(peak, ++now);
      if (s.kind == StepKind::Backward || s.kind == StepKind::BackwardWeight) --now;
    }
    most.push_back(peak);
  }
  return most;
}

PipelineSchedule made(std::string_view name, std::int32_t devices, std::int32_t microbatches,
                      std::int32_t chunks = 1) {
  return make_schedule(name, {devices, microbatches, chunks});
}

constexpr PassTimes kTimes[] = {{10, 10, 10}, {10, 12, 8}, {10, 15, 5}};

template <class Check>
void for_each_shape(Check check) {
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; ++microbatches) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      for (const PassTimes& times : kTimes) check(devices, microbatches, times);
    }
  }
}

TEST(Schedules, RunEveryStepOnceWhereItsStageIs) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    SCOPED_TRACE(kind.name);
    for (std::int32_t devices = 1; devices <= 6; ++devices) {
      for (std::int32_t microbatches = 1; microbatches <= 13; ++microbatches) {
        for (std::int32_t chunks = 1; chunks <= 3; ++chunks) {
          const PipelineShape shape{devices, microbatches, chunks, 1 + (devices + microbatches) % 7};
          if (!kind.refusal(shape).empty() || (chunks > 1 && !kind.takes_chunks)) continue;
          std::map<std::pair<std::int32_t, std::int32_t>, std::multiset<StepKind>> steps;
          const PipelineSchedule schedule = make_schedule(kind, shape);
          for (std::int32_t d = 0; d < devices; ++d) {
            for (const PipelineStep& s : schedule[static_cast<std::size_t>(d)]) {
              steps[{s.microbatch, s.stage}].insert(s.kind);
              const bool both_ways = kind.name == "chimera" || kind.name == "dualpipe";
              const bool up = both_ways && s.microbatch % 2 == 1;
              const bool back = (kind.name == "zb-v" || kind.name == "dualpipe-v") && s.stage >= devices;
              EXPECT_EQ(up ? devices - 1 - s.stage : back ? 2 * devices - 1 - s.stage : s.stage % devices, d);
            }
          }
          // Runs: the engine throws where tasks wait for each other.
          EXPECT_GE(Simulated(schedule, kTimes[0]).timeline.makespan, microbatches * chunks * 10);
          EXPECT_EQ(steps.size(), static_cast<std::size_t>(microbatches * devices * chunks));
          using enum StepKind;
          for (const auto& [where, kinds] : steps) {
            if (kind.name.starts_with("dualpipe")) {
              EXPECT_TRUE((kinds == std::multiset{Forward, Backward}) ||
                          (kinds == std::multiset{Forward, BackwardInput, BackwardWeight}));
            } else if (kind.name == "inference") {
              EXPECT_EQ(kinds, std::multiset{Forward});
            } else if (kind.name.starts_with("zb-")) {
              EXPECT_EQ(kinds, (std::multiset{Forward, BackwardInput, BackwardWeight}));
            } else {
              EXPECT_EQ(kinds, (std::multiset{Forward, Backward}));
            }
          }
        }
      }
    }
  }
}

TEST(Schedules, GPipeAndEarlyBackwardHaveEqualBubbles) {
  for_each_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    for (const char* name : {"gpipe", "1f1b"}) {
      const PipelineSchedule schedule = made(name, devices, microbatches);
      EXPECT_EQ(Simulated(schedule, times).bubble(times), (devices - 1) * times.all()) << name;
    }
  });
}

TEST(Schedules, HoldWhatTheirFormulasSay) {
  for_each_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes&) {
    EXPECT_THAT(in_flight(made("gpipe", devices, microbatches)), Each(Eq(microbatches)));
    const std::vector<std::int32_t> early = in_flight(made("1f1b", devices, microbatches));
    for (std::int32_t d = 0; d < devices; ++d)
      EXPECT_EQ(early[static_cast<std::size_t>(d)], std::min(devices - d, microbatches));
    EXPECT_THAT(in_flight(made("zb-h1", devices, microbatches)), Each(Eq(std::min(devices, microbatches))));
    EXPECT_THAT(in_flight(made("zb-h2", devices, microbatches)),
                Each(Eq(std::min(2 * devices - 1, microbatches))));
    if (devices % 2 != 0 || microbatches < devices) return;
    const std::vector<std::int32_t> two_ways = in_flight(made("chimera", devices, microbatches));
    EXPECT_THAT(two_ways, Each(Le(devices)));
    EXPECT_EQ(*std::ranges::min_element(two_ways), devices / 2 + 1);
  });
}

TEST(Schedules, WeightGradientsFillBubbles) {
  for_each_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    if (microbatches < devices) return;
    const Nanoseconds rest = times.forward + times.input - times.weight;
    const PipelineSchedule h1 = made("zb-h1", devices, microbatches);
    EXPECT_EQ(Simulated(h1, times).bubble(times), (devices - 1) * rest);
    if (microbatches < 2 * devices) return;
    const PipelineSchedule h2 = made("zb-h2", devices, microbatches);
    EXPECT_EQ(Simulated(h2, times).bubble(times), (devices - 1) * (rest - times.weight));
  });
}

// Qi et al.: no bubbles where all steps take equally long, and as much memory as 1f1b takes at most. The last
// device begins when all others have gone forward once.
TEST(Schedules, ZeroBubbleVHasNeitherBubblesNorMoreMemory) {
  const PassTimes& even = kTimes[0];
  for (std::int32_t devices = 1; devices <= 16; ++devices) {
    for (const std::int32_t microbatches :
         {2 * devices - 1, 2 * devices, 2 * devices + 1, 3 * devices + 2, 5 * devices}) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      const PipelineSchedule schedule = made("zb-v", devices, microbatches, 2);
      const Simulated simulated(schedule, even);
      EXPECT_EQ(simulated.bubble(even), 0);
      EXPECT_EQ(simulated.timeline.makespan, 2 * microbatches * even.all() + (devices - 1) * even.forward);
      // Of single stages: two of them are a device's part of a microbatch.
      EXPECT_THAT(in_flight(schedule), Each(Eq(2 * devices)));
    }
  }
}

TEST(Schedules, ZeroBubbleVOfFewMicrobatchesIsNoWorseThanWithoutChunks) {
  for_each_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    const PipelineSchedule schedule = made("zb-v", devices, microbatches, 2);
    EXPECT_THAT(in_flight(schedule), Each(Le(2 * std::min(devices, microbatches))));
    if (times.input != times.weight) return;
    // One stage a device takes twice as long.
    const PassTimes twice{2 * times.forward, 2 * times.input, 2 * times.weight};
    EXPECT_LE(Simulated(schedule, times).timeline.makespan,
              Simulated(made("zb-h1", devices, microbatches), twice).timeline.makespan);
  });
}

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
TEST(Schedules, DualPipesHaveTheBubblesAndKeepWhatTheirFormulasSay) {
  for (const PassTimes& times : kTimes) {
    const Nanoseconds backward = times.input + times.weight;
    for (const std::int32_t half : {1, 2, 3, 4, 8}) {
      const Nanoseconds formula = (half - 1) * ((times.forward + backward) + backward - 3 * times.weight);
      for (const std::int32_t more : {0, 1, 2, 5, 3 * half}) {
        SCOPED_TRACE(testing::Message() << half << ", " << more << " more, " << times.weight);
        const PipelineSchedule whole = made("dualpipe", 2 * half, 4 * half + 2 * more),
                               in_v = made("dualpipe-v", half, 2 * half + more, 2);
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

TEST(Schedules, DualPipesPairForwardWithBackwardOfTheOtherStream) {
  for (const auto& [name, devices, chunks] : {std::tuple("dualpipe", 8, 1), std::tuple("dualpipe-v", 4, 2)}) {
    const PipelineSchedule schedule = made(name, devices, 24, chunks);
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

TEST(Schedules, StagesGoRoundTheDevicesOrLieInAV) {
  const auto devices_of = [](std::int64_t stages, std::int64_t devices, bool in_v) {
    std::vector<std::int64_t> found;
    for (std::int64_t s = 0; s < stages; ++s) found.push_back(device_of_stage(s, devices, in_v));
    return found;
  };
  EXPECT_THAT(devices_of(6, 3, false), testing::ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(devices_of(6, 3, true), testing::ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(devices_of(2, 1, true), testing::ElementsAre(0, 0));
  for (const bool in_v : {false, true}) {
    for (std::int64_t devices = 1; devices <= 5; ++devices) {
      for (std::int64_t stage = 0; stage < 3 * devices; ++stage) {
        EXPECT_EQ(stage_of_chunk(device_of_stage(stage, devices, in_v), stage / devices, devices, in_v),
                  stage);
      }
    }
  }
  EXPECT_TRUE(lies_in_v("zb-v"));
  EXPECT_TRUE(lies_in_v("dualpipe-v"));
  for (const char* other : {"interleaved", "zb-h1", "zb-auto:4", "zb", "dualpipe", ""})
    EXPECT_FALSE(lies_in_v(other));
}

TEST(Schedules, ChunksDivideBubbles) {
  for (std::int32_t devices = 2; devices <= 8; ++devices) {
    for (std::int32_t chunks = 2; chunks <= 4; ++chunks) {
      for (std::int32_t microbatches = devices; microbatches <= 32; microbatches += devices) {
        for (const PassTimes& times : kTimes) {
          const PipelineSchedule schedule = made("interleaved", devices, microbatches, chunks);
          // A stage is one of devices · chunks, so that a device's bubble of 1f1b would be `chunks` times
          // this.
          EXPECT_EQ(Simulated(schedule, times).bubble(times), (devices - 1) * times.all());
          const std::vector<std::int32_t> most = in_flight(schedule);
          EXPECT_LE(most.front(), devices * chunks + devices - 1);
          // Even with a single group of microbatches, the last device begins backward with its last chunk.
          EXPECT_EQ(most.back(), devices * (chunks - 1) + 1);
        }
      }
    }
  }
}

TEST(Schedules, ChimeraHalvesBubbles) {
  const PassTimes times{10, 12, 8};  // backward takes twice as long as forward
  for (const std::int32_t devices : {2, 4, 6, 8}) {
    const PipelineSchedule schedule = made("chimera", devices, devices);
    EXPECT_EQ(Simulated(schedule, times).bubble(times), (devices - 2) * 2 * times.forward);
    // More microbatches take no longer than as many runs of this.
    const Nanoseconds unit = Simulated(schedule, times).timeline.makespan;
    for (std::int32_t runs = 2; runs <= 8; ++runs) {
      const PipelineSchedule more = made("chimera", devices, runs * devices);
      EXPECT_LE(Simulated(more, times).timeline.makespan, runs * unit) << devices << ", " << runs;
    }
  }
}

TEST(Schedules, AutomaticZeroBubbleKeepsItsLimit) {
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; microbatches += sanitized ? 9 : 3) {
      for (std::int32_t limit = 1; limit <= 2 * devices + 1; ++limit) {
        const PipelineSchedule schedule = made(fmt::format("zb-auto:{}", limit), devices, microbatches);
        EXPECT_THAT(in_flight(schedule), Each(Le(limit)));
        for (const PassTimes& times : kTimes)
          EXPECT_GE(Simulated(schedule, times).timeline.makespan, microbatches * times.all());
      }
    }
  }
}

TEST(Schedules, AutomaticZeroBubbleIsNoWorseThanTheOnesMadeByHand) {
  const PassTimes& times = kTimes[0];
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; microbatches += sanitized ? 5 : 1) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      const auto bubble = [&](const std::string& name) {
        return Simulated(made(name, devices, microbatches), times).bubble(times);
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

TEST(Schedules, AutomaticZeroBubbleIsTheBestOfAllOrdersOfTinyPipelines) {
  struct Case {
    std::int32_t devices, microbatches;
  };
  for (const auto& [devices, microbatches] : {Case{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}}) {
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
      const PipelineSchedule found = made(fmt::format("zb-auto:{}", limit), devices, microbatches);
      EXPECT_EQ(unit_bubble(found), least);
      EXPECT_EQ(Simulated(found, {1, 1, 1}).bubble({1, 1, 1}), least);
    }
  }
}

// The heuristic with other times than the units that plans use: it never holds more, and transfers are
// foreseen.
TEST(Schedules, AutomaticZeroBubbleForesees) {
  for (const ZeroBubbleTimes& times : {ZeroBubbleTimes{10, 12, 8, 1}, {185, 181, 93, 6}, {10, 10, 10, 5}}) {
    for (const std::int32_t limit : {4, 8}) {
      const PipelineSchedule schedule = automatic_zero_bubble({4, 12, 1, limit}, times);
      EXPECT_THAT(in_flight(schedule), Each(Le(limit)));
      EXPECT_GE(Simulated(schedule, kTimes[0]).timeline.makespan, 12 * kTimes[0].all());
    }
  }
  const PassTimes uneven{10, 15, 5};
  const PipelineSchedule for_them = automatic_zero_bubble({4, 16, 1, 4}, {10, 15, 5, 0});
  EXPECT_LE(Simulated(for_them, uneven).bubble(uneven),
            Simulated(made("zb-auto:4", 4, 16), uneven).bubble(uneven));
}

TEST(Schedules, RefuseShapesThatDoNotSuitThem) {
  const auto refusal = [](auto&&... shape) -> std::string {
    try {
      made(shape...);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("interleaved", 4, 10, 2),
            "schedule \"interleaved\": found 10 microbatches, allowed: a multiple of the 4 groups of "
            "devices, like 8");
  EXPECT_THAT(refusal("interleaved", 4, 3, 2), HasSubstr("like 4"));
  EXPECT_EQ(refusal("chimera", 3, 6),
            "schedule \"chimera\": found 3 stages, allowed: an even number, like 4");
  EXPECT_EQ(refusal("1f1b", 3, 6, 2), "schedule \"1f1b\": found 2 chunks a device, allowed: 1");
  EXPECT_EQ(refusal("dualpipe-v", 3, 6, 1),
            "schedule \"dualpipe-v\": found 1 chunk a device, allowed: 2, as in a V");
  EXPECT_EQ(
      refusal("dualpipe-v", 3, 5, 2),
      "schedule \"dualpipe-v\": found 5 microbatches for 3 devices, allowed: twice as many or more, like 6");
  EXPECT_EQ(refusal("dualpipe", 3, 6),
            "schedule \"dualpipe\": found 3 stages, allowed: an even number, like 4");
  EXPECT_EQ(
      refusal("dualpipe", 4, 6),
      "schedule \"dualpipe\": found 6 microbatches for 4 devices, allowed: twice as many or more, like 8");
  EXPECT_EQ(refusal("dualpipe", 4, 9),
            "schedule \"dualpipe\": found 9 microbatches, allowed: an even number, like 10");
  EXPECT_EQ(refusal("dualpipe", 4, 8, 2), "schedule \"dualpipe\": found 2 chunks a device, allowed: 1");
  EXPECT_EQ(refusal("zb-v", 3, 6, 1), "schedule \"zb-v\": found 1 chunk a device, allowed: 2, as in a V");
  EXPECT_EQ(refusal("zb-v", 3, 6, 4), "schedule \"zb-v\": found 4 chunks a device, allowed: 2, as in a V");
  EXPECT_THAT(refusal("1f2b", 3, 6), HasSubstr("did you mean \"1f1b\"?"));
  EXPECT_EQ(refusal("zb-auto:3", 3, 6, 2), "schedule \"zb-auto\": found 2 chunks a device, allowed: 1");
  const std::string allowed =
      ", allowed: zb-auto:LIMIT with the most microbatches that a device may hold, a whole number from 1, "
      "like zb-auto:8";
  EXPECT_EQ(refusal("zb-auto", 3, 6), "schedule \"zb-auto\": found no limit" + allowed);
  for (const std::string limit : {"", "0", "-1", "2x", "1.5", "99999999999"})
    EXPECT_EQ(refusal("zb-auto:" + limit, 3, 6),
              "schedule \"zb-auto:" + limit + "\": found the limit \"" + limit + "\"" + allowed);
  EXPECT_EQ(refusal("1f1b:3", 3, 6), "schedule \"1f1b:3\": 1f1b takes no limit, allowed: 1f1b");
  EXPECT_THAT(refusal("zb-aut:3", 3, 6), HasSubstr("unknown (did you mean \"zb-auto\"?)"));
}

TEST(Schedules, WhatWasMadeLastIsRemembered) {
  MadeSchedules made;
  for (int round = 0; round < 2; ++round) {
    for (const std::int32_t microbatches : {4, 9}) {
      for (const char* written : {"1f1b", "gpipe", "zb-auto:3", "zb-auto:5"}) {
        const PipelineShape shape{3, microbatches, 1};
        const PipelineSchedule& first = made.of(written, shape);
        EXPECT_EQ(first, make_schedule(written, shape)) << written;
        EXPECT_EQ(&made.of(written, shape), &first) << written;
      }
    }
  }
  EXPECT_THROW(made.of("interleaved", {3, 4, 2}), InputError);
  EXPECT_THROW(require_shape("interleaved", {3, 4, 2}), InputError);
  EXPECT_NO_THROW(require_shape("zb-auto:3", {3, 4, 1}));
  EXPECT_THROW(require_shape("zb-auto:3", {3, 4, 2}), InputError);
}

}  // namespace
}  // namespace pipesim
