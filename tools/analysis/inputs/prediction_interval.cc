#include "tools/analysis/inputs/prediction_interval.h"

#include "costmodel/constants/fit_constants.h"
#include "search/evaluator.h"

namespace pipesim {

Reliance reliance_of(const OperatorGraph& graph, const Topology& topology,
                     const std::optional<Calibration>& calibration, const Plan& plan, Nanoseconds predicted,
                     bool profiled) {
  Reliance reliance;
  if (plan.runtime != Runtime()) reliance.runtime = plan.runtime.name;
  reliance.uncalibrated = !calibration && !profiled;
  if (!calibration || !calibration->constants) return reliance;
  Calibration there = *calibration;
  const auto predict = [&](const ClusterConstants& moved) {
    there.constants = moved;
    const CostModel costs(topology, &there, plan.runtime);
    return to_seconds(Evaluator(graph, costs, plan.options).evaluate(plan.strategy).time);
  };
  reliance.interval = interval_of(*calibration->constants, to_seconds(predicted), predict);
  reliance.runs = calibration->constants->source.runs;
  return reliance;
}

}  // namespace pipesim
