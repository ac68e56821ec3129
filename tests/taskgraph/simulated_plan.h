#pragma once

#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// A plan's task graph as if it had so many microbatches, with labels, and its timeline.
struct SimulatedPlan {
  SimulatedPlan(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                const Strategy& strategy)
      : contents(graph, costs, options), bound(contents.bind(strategy)) {}
  SimulatedPlan(const SimulatedPlan&) = delete;
  SimulatedPlan& operator=(const SimulatedPlan&) = delete;
  void build(std::int32_t microbatches) {
    expanded.expand(bound, {.labels = Labels::Make, .microbatches = microbatches});
    timeline = simulate(tasks.dag);
  }

  PlanContents contents;
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
  const TaskGraph& tasks = expanded.graph();
  Timeline timeline;
};

}  // namespace pipesim
