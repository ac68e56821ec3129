#include "taskgraph/schedules/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/errors.h"
#include "tests/taskgraph/schedules/simulated_schedule.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Eq;
using testing::HasSubstr;
using testing::Le;

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
          EXPECT_GE(SimulatedSchedule(schedule, kPassTimes[0]).timeline.makespan, microbatches * chunks * 10);
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
  for_each_pipeline_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes& times) {
    for (const char* name : {"gpipe", "1f1b", "eager-1f1b"}) {
      const PipelineSchedule schedule = made_schedule(name, devices, microbatches);
      EXPECT_EQ(SimulatedSchedule(schedule, times).bubble(times), (devices - 1) * times.all()) << name;
    }
  });
}

TEST(Schedules, HoldWhatTheirFormulasSay) {
  for_each_pipeline_shape([](std::int32_t devices, std::int32_t microbatches, const PassTimes&) {
    EXPECT_THAT(in_flight(made_schedule("gpipe", devices, microbatches)), Each(Eq(microbatches)));
    const std::vector<std::int32_t> early = in_flight(made_schedule("1f1b", devices, microbatches));
    for (std::int32_t d = 0; d < devices; ++d)
      EXPECT_EQ(early[static_cast<std::size_t>(d)], std::min(devices - d, microbatches));
    const std::vector<std::int32_t> eager = in_flight(made_schedule("eager-1f1b", devices, microbatches));
    for (std::int32_t d = 0; d < devices; ++d)
      EXPECT_EQ(eager[static_cast<std::size_t>(d)], std::min(2 * (devices - d) - 1, microbatches));
    EXPECT_THAT(in_flight(made_schedule("zb-h1", devices, microbatches)),
                Each(Eq(std::min(devices, microbatches))));
    EXPECT_THAT(in_flight(made_schedule("zb-h2", devices, microbatches)),
                Each(Eq(std::min(2 * devices - 1, microbatches))));
    if (devices % 2 != 0 || microbatches < devices) return;
    const std::vector<std::int32_t> two_ways = in_flight(made_schedule("chimera", devices, microbatches));
    EXPECT_THAT(two_ways, Each(Le(devices)));
    EXPECT_EQ(*std::ranges::min_element(two_ways), devices / 2 + 1);
  });
}

// A microbatch may be on its way to the next stage and another on its way back for as long as a stage
// computes on one, and no stage waits but at the ends. Under 1f1b every stage waits for every microbatch.
TEST(Schedules, EagerOnesOverlapTransfersWithCompute) {
  for (std::int32_t devices = 2; devices <= 6; ++devices) {
    for (const PassTimes& times : kPassTimes) {
      const auto makespan = [&](const char* name, Nanoseconds transfer) {
        const PipelineSchedule schedule = made_schedule(name, devices, 32);
        return SimulatedSchedule(schedule, times, transfer).timeline.makespan;
      };
      EXPECT_EQ(makespan("eager-1f1b", 0), makespan("1f1b", 0));
      for (Nanoseconds transfer = 1; transfer <= 2 * times.all(); ++transfer)
        EXPECT_LT(makespan("eager-1f1b", transfer), makespan("1f1b", transfer));
      const Nanoseconds slow = times.all() / 2, ends = 2 * (devices - 1) * slow;
      EXPECT_EQ(makespan("eager-1f1b", slow), makespan("1f1b", 0) + ends);
      EXPECT_GT(makespan("1f1b", slow), makespan("1f1b", 0) + 2 * ends);
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
        for (const PassTimes& times : kPassTimes) {
          const PipelineSchedule schedule = made_schedule("interleaved", devices, microbatches, chunks);
          // A stage is one of devices · chunks, so that a device's bubble of 1f1b would be `chunks` times
          // this.
          EXPECT_EQ(SimulatedSchedule(schedule, times).bubble(times), (devices - 1) * times.all());
          const std::vector<std::int32_t> most = in_flight(schedule);
          EXPECT_LE(most.front(), devices * chunks + devices - 1);
          // Even with a single group of microbatches, the last device begins backward with its last chunk.
          EXPECT_EQ(most.back(), devices * (chunks - 1) + 1);
        }
      }
    }
  }
}

// The order of chunks is a list of groups, each of which passes one chunk after the other, as
// --microbatch-group-size-per-virtual-pipeline-stage says it.
TEST(Schedules, InterleavedGroupsPassChunksTogether) {
  for (const std::int32_t microbatches : {8, 9, 11, 12, 14}) {
    for (const std::int32_t together : {4, 5, 6, 7}) {
      constexpr std::int32_t devices = 4, chunks = 3;
      const std::int32_t left = microbatches % together;
      const std::string written = fmt::format("interleaved-groups:{}", together);
      const PipelineShape shape{devices, microbatches, chunks};
      if (left != 0 && left < devices) {
        EXPECT_THROW((void)make_schedule(written, shape), InputError);
        continue;
      }
      std::vector<std::pair<std::int32_t, std::int32_t>> forward;  // microbatch and chunk
      for (std::int32_t first = 0; first < microbatches; first += together) {
        for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
          for (std::int32_t m = first; m < std::min(first + together, microbatches); ++m)
            forward.emplace_back(m, chunk);
        }
      }
      const PipelineSchedule schedule = make_schedule(written, shape);
      for (std::int32_t d = 0; d < devices; ++d) {
        std::size_t forwards = 0, backwards = 0, ahead = 0;
        for (const PipelineStep& step : schedule[static_cast<std::size_t>(d)]) {
          const bool back = step.kind == StepKind::Backward;
          const auto [microbatch, chunk] = forward[back ? backwards++ : forwards++];
          EXPECT_EQ(step.microbatch, microbatch);
          EXPECT_EQ(step.stage, (back ? chunks - 1 - chunk : chunk) * devices + d);
          if (backwards == 0) ahead = forwards;
        }
        // One more where one forward and one backward begin to alternate.
        const auto warm_up = static_cast<std::size_t>(2 * (devices - d - 1) + (chunks - 1) * together);
        EXPECT_EQ(ahead, std::min(warm_up + 1, forward.size()));
      }
      if (together == devices) {
        EXPECT_EQ(schedule, make_schedule("interleaved", shape));
      }
    }
  }
}

// Megatron-LM does so with --overlap-moe-expert-parallel-comm: the order of interleaved-groups with one more
// forward at first, and each backward that has a forward before it runs beside that.
TEST(Schedules, InterleavedBesideIsOneAhead) {
  for (const auto& [devices, chunks, together] : {std::tuple{1, 1, 1}, {4, 2, 4}, {3, 3, 4}}) {
    constexpr std::int32_t microbatches = 12;
    const PipelineSchedule beside =
        make_schedule(fmt::format("interleaved-beside:{}", together), {devices, microbatches, chunks});
    const PipelineSchedule in_turn =
        make_schedule(fmt::format("interleaved-groups:{}", together), {devices, microbatches, chunks});
    for (std::size_t d = 0; d < beside.size(); ++d) {
      std::vector<PipelineStep> forward[2], backward[2];
      std::size_t pairs = 0, ahead = 0;
      for (std::size_t i = 0; i < beside[d].size(); ++i) {
        const PipelineStep& step = beside[d][i];
        if (step.beside) {
          ++pairs;
          EXPECT_EQ(step.kind, StepKind::Backward);
          EXPECT_EQ(beside[d][i - 1].kind, StepKind::Forward);
        }
        if (backward[0].empty() && step.kind == StepKind::Forward) ++ahead;
        (step.kind == StepKind::Forward ? forward : backward)[0].push_back(
            {step.kind, step.microbatch, step.stage});
      }
      for (const PipelineStep& step : in_turn[d])
        (step.kind == StepKind::Forward ? forward : backward)[1].push_back(step);
      EXPECT_EQ(forward[0], forward[1]);
      EXPECT_EQ(backward[0], backward[1]);
      const std::size_t warm_up = 2 * (static_cast<std::size_t>(devices) - d - 1) +
                                  static_cast<std::size_t>((chunks - 1) * together) + 1;
      EXPECT_EQ(ahead, warm_up + 1);  // the first of a pair stands before its backward
      EXPECT_EQ(pairs, forward[0].size() - warm_up);
    }
  }
}

TEST(Schedules, ChimeraHalvesBubbles) {
  const PassTimes times{10, 12, 8};  // backward takes twice as long as forward
  for (const std::int32_t devices : {2, 4, 6, 8}) {
    const PipelineSchedule schedule = made_schedule("chimera", devices, devices);
    EXPECT_EQ(SimulatedSchedule(schedule, times).bubble(times), (devices - 2) * 2 * times.forward);
    // More microbatches take no longer than as many runs of this.
    const Nanoseconds unit = SimulatedSchedule(schedule, times).timeline.makespan;
    for (std::int32_t runs = 2; runs <= 8; ++runs) {
      const PipelineSchedule more = made_schedule("chimera", devices, runs * devices);
      EXPECT_LE(SimulatedSchedule(more, times).timeline.makespan, runs * unit) << devices << ", " << runs;
    }
  }
}

TEST(Schedules, RefuseShapesThatDoNotSuitThem) {
  const auto refusal = [](auto&&... shape) -> std::string {
    try {
      made_schedule(shape...);
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
  EXPECT_EQ(refusal("zb-auto", 3, 6), "schedule \"zb-auto\": found no number" + allowed);
  for (const std::string limit : {"", "0", "-1", "2x", "1.5", "99999999999"})
    EXPECT_EQ(refusal("zb-auto:" + limit, 3, 6),
              "schedule \"zb-auto:" + limit + "\": found the number \"" + limit + "\"" + allowed);
  EXPECT_EQ(refusal("1f1b:3", 3, 6), "schedule \"1f1b:3\": 1f1b takes no number, allowed: 1f1b");
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
