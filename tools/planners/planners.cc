#include <algorithm>
#include <array>

#include "tools/planners/planner.h"

namespace pipesim {

PlannedPipeline::PlannedPipeline(const PlannerCall& call, PipelinedStrategy made)
    : run(call.run),
      graph(call.graph),
      options(plan_options_of(call.arguments, call.run)),
      strategy(std::move(made.strategy)) {
  options.pipeline = std::move(made.pipeline);
}

std::span<const Planner> planners() {
  static const std::array all{gpipe_planner(), pipedream_planner(), dapple_planner()};
  return all;
}

const Planner* planner_named(std::string_view name) {
  const auto found = std::ranges::find(planners(), name, &Planner::name);
  return found == planners().end() ? nullptr : &*found;
}

}  // namespace pipesim
