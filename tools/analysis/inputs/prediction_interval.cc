#include "tools/analysis/inputs/prediction_interval.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
    return to_seconds(Evaluator(graph, costs, plan.options).score(plan.strategy).time);
  };
  reliance.interval = interval_of(*calibration->constants, to_seconds(predicted), predict);
  reliance.runs = calibration->constants->source.runs;
  return reliance;
}

std::string to_text(const Reliance& reliance) {
  std::string text;
  if (!reliance.runtime.empty()) text += fmt::format("  {:13}  {}\n", "runtime", reliance.runtime);
  if (const auto& interval = reliance.interval)
    text += fmt::format("  {:13}  90 % of runs within {} to {}, by constants fitted to {} runs\n", "interval",
                        pretty(interval->low), pretty(interval->high), reliance.runs);
  else if (reliance.uncalibrated)
    text += fmt::format("  {:13}  uncalibrated, from published figures of devices and links\n", "durations");
  return text;
}

nlohmann::ordered_json json_of(const Reliance& reliance) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!reliance.runtime.empty()) json["runtime"] = reliance.runtime;
  if (const auto& interval = reliance.interval)
    json["interval_s"] = {interval->low.value, interval->high.value};
  if (reliance.uncalibrated) json["uncalibrated"] = true;
  return json;
}

}  // namespace pipesim
