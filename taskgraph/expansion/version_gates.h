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

/// For plans whose weights change while microbatches are under way (WeightVersions). Makes each step wait for
/// the version that it needs, and each update for the gradients that it uses.
class VersionGates {
 public:
  explicit VersionGates(StrategyExpander& expander);

  /// Adds two gates on each device of each stage: one before the microbatch's forward, one before its
  /// backward.
  void add(const BoundStrategy& strategy, std::int32_t microbatch);
  /// The task after which the step may begin. It is the step's gate, which waits for `before` and for the
  /// updates that the step needs.
  TaskId enter(const PipelineStep& step, DeviceId device, TaskId before);
  /// Makes each update wait for the step in which the device made the last gradients that the update uses.
  /// `first_barrier`: the barrier after the device's first step.
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
