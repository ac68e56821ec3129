#include "tools/inputs/prediction_interval.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "costmodel/constants/fit_constants.h"
#include "search/evaluator.h"

namespace pipesim {

Reliance reliance_of(const OperatorGraph& graph, const Topology& topology,
                     const std::optional<Calibration>& calibration, const Plan& plan, Nanoseconds predicted,
                     bool profiled) {
  Reliance reliance;
  reliance.uncalibrated = !calibration && !profiled;
  if (!calibration || !calibration->constants) return reliance;
  const ClusterConstants& constants = *calibration->constants;
  const double base = std::log(to_seconds(predicted).value);
  const auto slopes = sensitivities_of(constants, std::span(&base, 1), [&](const ClusterConstants& moved) {
    Calibration there = *calibration;
    there.constants = moved;
    const CostModel costs(topology, &there, plan.runtime);
    Evaluator evaluator(graph, costs, plan.options);
    return std::vector{std::log(to_seconds(evaluator.score(plan.strategy).time).value)};
  });
  reliance.interval = interval_around(to_seconds(predicted), log_deviation(constants, slopes.front()));
  reliance.runs = constants.source.runs;
  return reliance;
}

std::string to_text(const Reliance& reliance) {
  if (const auto& interval = reliance.interval)
    return fmt::format("  {:13}  90 % of runs within {} to {}, by constants fitted to {} runs\n", "interval",
                       pretty(interval->low), pretty(interval->high), reliance.runs);
  return reliance.uncalibrated
             ? fmt::format("  {:13}  uncalibrated, from published figures of devices and links\n",
                           "durations")
             : "";
}

nlohmann::ordered_json json_of(const Reliance& reliance) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (const auto& interval = reliance.interval)
    json["interval_s"] = {interval->low.value, interval->high.value};
  if (reliance.uncalibrated) json["uncalibrated"] = true;
  return json;
}

}  // namespace pipesim
