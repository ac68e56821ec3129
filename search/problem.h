#pragma once

#include <string>

#include "costmodel/cost_model.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// What a plan is asked for: a model on a topology, what holds for its plans, and what times them.
struct Problem {
  std::string model;    ///< its text, with the batch of a microbatch
  OperatorGraph graph;  ///< of `model`
  std::string topology_text;
  Topology topology;
  PlanOptions options = {};       ///< of the plan; without a pipeline
  Runtime runtime = {};           ///< that times plans
  std::string calibration = {};   ///< a file; "": none
  std::string profile_note = {};  ///< a sentence on a model from a profile; ""
};

}  // namespace pipesim
