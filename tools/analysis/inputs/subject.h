#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/analysis/inputs/plan_origin.h"
#include "topologies/topology.h"

namespace pipesim {

/// The plan that a command works on: a baseline, or a plan file with its own model and topology, unless
/// others are given.
struct Subject {
  OperatorGraph graph;
  Topology topology;
  Plan plan;
  std::optional<Calibration> calibration;
  std::string profile_note = {};         ///< see profile_note()
  std::vector<OtherOrigin> others = {};  ///< of a plan file: what else it was made for
};

}  // namespace pipesim
