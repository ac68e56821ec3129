#pragma once

#include <string>

#include "models/operator_graph.h"
#include "search/evaluator.h"
#include "tools/analysis/inputs/model_run.h"

namespace pipesim {

/// What a plan is asked for: a model on a topology, what holds for its plans, and what judges them.
struct Problem {
  ModelRun model;
  OperatorGraph graph;  ///< of `model`; its batch is a microbatch
  std::string topology_text;
  Topology topology;
  PlanOptions options;       ///< without a pipeline
  Runtime runtime;           ///< that times plans
  std::string calibration;   ///< a file; "": none
  std::string profile_note;  ///< a sentence on a model from a profile; ""
};

}  // namespace pipesim
