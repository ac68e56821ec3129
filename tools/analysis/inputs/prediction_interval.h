#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/calibration.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// What a predicted time rests on.
struct Reliance {
  std::optional<PredictionInterval> interval;  ///< with constants
  std::int64_t runs = 0;                       ///< that the constants were fitted to
  std::string runtime;                         ///< "": pipesim's own
  bool uncalibrated = false;                   ///< on published figures of devices and links alone
};

/// Returns what the predicted time of a plan rests on. With constants, the plan is simulated once for each of
/// them. `profiled`: the model brings measured times along.
Reliance reliance_of(const OperatorGraph& graph, const Topology& topology,
                     const std::optional<Calibration>& calibration, const Plan& plan, Nanoseconds predicted,
                     bool profiled);

}  // namespace pipesim
