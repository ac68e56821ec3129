#pragma once

#include "sim/simulate.h"
#include "taskgraph/expansion/task_graph_builder.h"

namespace pipesim {

/// A plan's task graph as if it had so many microbatches, with labels, and its timeline.
struct SimulatedPlan {
  SimulatedPlan(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                const Strategy& strategy)
      : builder(graph, costs, options), bound(builder.bind(strategy)) {}
  void build(std::int32_t microbatches) {
    builder.build(bound, tasks, TaskGraphBuilder::Labels::Make, microbatches);
    timeline = simulate(tasks.dag);
  }

  TaskGraphBuilder builder;
  BoundStrategy bound;
  TaskGraph tasks;
  Timeline timeline;
};

}  // namespace pipesim
