#pragma once

#include <cstdint>
#include <vector>

#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// The part of an iteration that was simulated, and how the rest follows from it: devices stand for others
/// like them, and windows of the timeline come again. It refers to an Evaluator, until that evaluates again.
struct SimulatedPart {
  const ExpandedStrategy& expanded;
  const Timeline& timeline;
  const Folding* folding = nullptr;  ///< null: all devices were simulated
  SteadyState steady;                ///< without windows: all microbatches were simulated

  [[nodiscard]] const TaskDag& dag() const { return expanded.dag(); }
  [[nodiscard]] const std::vector<TaskLabel>& labels() const { return expanded.graph().labels; }
  [[nodiscard]] bool is_all() const { return folding == nullptr && steady.windows.empty(); }
  [[nodiscard]] DeviceId stands_for(DeviceId device) const {
    return folding ? folding->stands_for(device) : device;
  }
  [[nodiscard]] LaneId stands_for(LaneId lane) const { return folding ? folding->stands_for(lane) : lane; }
  /// How long an iteration spends in [begin, end) of the timeline, each time that it comes.
  [[nodiscard]] Nanoseconds time_spent(Nanoseconds begin, Nanoseconds end) const;
  /// How often an iteration does what begins at this moment.
  [[nodiscard]] std::int64_t times(Nanoseconds begin) const;
  [[nodiscard]] Nanoseconds makespan() const { return steady.time_of(timeline.makespan); }
  /// By device: the number of devices that it stands for, 0 where another stands for it.
  [[nodiscard]] std::vector<std::int64_t> devices_alike() const;
};

}  // namespace pipesim
