#pragma once

#include <optional>
#include <string>

#include "costmodel/calibration.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// Between which times 90 % of runs of a plan are expected, around the time that was predicted. Nothing
/// without constants. Simulates the plan once for each constant.
std::optional<PredictionInterval> interval_of(const OperatorGraph& graph, const Topology& topology,
                                              const std::optional<Calibration>& calibration, const Plan& plan,
                                              Nanoseconds predicted);

/// The same as a row below a plan's report.
std::string interval_line(const PredictionInterval& interval, const ClusterConstants& constants);

}  // namespace pipesim
