#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/simulate.h"
#include "sim/task_dag.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

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

/// A schedule of equal stages as the engine runs it. `transfer`: how long data are on their way from one
/// stage to the next, where any number may be at once.
struct SimulatedSchedule {
  SimulatedSchedule(PipelineSchedule steps_by_device, const PassTimes& times, Nanoseconds transfer = 0)
      : schedule(std::move(steps_by_device)) {
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
      if (stage < 0 || stage > last) return;
      const TaskId before = forward_or_input.at({forward, s.microbatch, stage});
      if (transfer == 0 || stage == s.stage) return dag.add_edge(before, task);
      const TaskId on_its_way = dag.add_task({1, dag.num_tasks()}, transfer, LaneId());
      dag.add_edge(before, on_its_way);
      dag.add_edge(on_its_way, task);
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

  /// The longest that a device waits between its first and its last step.
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
  std::vector<TaskId> tasks;  ///< in the order of devices and steps
  Timeline timeline;
};

/// By device: the most microbatches whose activations it holds, of all its stages together.
inline std::vector<std::int32_t> in_flight(const PipelineSchedule& schedule) {
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

inline PipelineSchedule made_schedule(std::string_view name, std::int32_t devices, std::int32_t microbatches,
                                      std::int32_t chunks = 1) {
  return make_schedule(name, {devices, microbatches, chunks});
}

/// Backward takes twice as long as forward, in parts that differ.
inline constexpr PassTimes kPassTimes[] = {{10, 10, 10}, {10, 12, 8}, {10, 15, 5}};

/// Up to 8 devices, 32 microbatches.
template <class Check>
void for_each_pipeline_shape(Check check) {
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (std::int32_t microbatches = 1; microbatches <= 32; ++microbatches) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << microbatches << " microbatches");
      for (const PassTimes& times : kPassTimes) check(devices, microbatches, times);
    }
  }
}

}  // namespace pipesim
