#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

class StrategyExpander;
class PlanContents;
class ExpandedStrategy;

/// Where weights change while microbatches are under way (WeightVersions): makes steps wait for the version
/// that they need, and updates for the gradients that they take in.
class VersionGates {
 public:
  explicit VersionGates(StrategyExpander& expander);

  /// Two gates on each device of each stage: before it takes the microbatch forward, and before it takes it
  /// back.
  void add(const BoundStrategy& strategy, std::int32_t microbatch);
  /// The task after which the step may begin: its gate, which waits for `before` and for the updates that the
  /// step needs.
  TaskId enter(const PipelineStep& step, DeviceId device, TaskId before);
  /// Updates wait for the end of the step that made the device's last gradients of their change.
  /// `first_barrier`: the one after the device's first step.
  void update_between_steps(DeviceId device, std::span<const PipelineStep> steps, TaskId first_barrier);

 private:
  [[nodiscard]] std::size_t number(const PipelineStep& step, DeviceId device) const;
  template <class Do>
  void for_updates(std::int32_t stage, DeviceId device, std::int32_t change, Do visit) const;

  StrategyExpander& expander_;
  const PlanContents& contents_;
  const ExpandedStrategy& made_;
  std::vector<TaskId> gates_;  // by number()
};

}  // namespace pipesim
