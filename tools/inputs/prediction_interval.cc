#include "tools/inputs/prediction_interval.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "costmodel/constants/fit_constants.h"
#include "search/evaluator.h"

namespace pipesim {

std::optional<PredictionInterval> interval_of(const OperatorGraph& graph, const Topology& topology,
                                              const std::optional<Calibration>& calibration, const Plan& plan,
                                              Nanoseconds predicted) {
  if (!calibration || !calibration->constants) return std::nullopt;
  const ClusterConstants& constants = *calibration->constants;
  const double base = std::log(to_seconds(predicted).value);
  const auto slopes = sensitivities_of(constants, std::span(&base, 1), [&](const ClusterConstants& moved) {
    Calibration there = *calibration;
    there.constants = moved;
    const CostModel costs(topology, &there, plan.runtime);
    Evaluator evaluator(graph, costs, plan.options);
    return std::vector{std::log(to_seconds(evaluator.score(plan.strategy).time).value)};
  });
  return interval_around(to_seconds(predicted), log_deviation(constants, slopes.front()));
}

std::string interval_line(const PredictionInterval& interval, const ClusterConstants& constants) {
  return fmt::format("  {:13}  90 % of runs within {} to {}, by constants fitted to {} runs\n", "interval",
                     pretty(interval.low), pretty(interval.high), constants.source.runs);
}

}  // namespace pipesim
