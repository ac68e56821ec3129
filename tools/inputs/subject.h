#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/cli/arguments.h"
#include "tools/inputs/plan_origin.h"
#include "topologies/topology.h"

namespace pipesim {

/// What a command works on: a plan file with its own model and topology (or others that are told), or a
/// baseline.
struct Subject {
  OperatorGraph graph;
  Topology topology;
  Plan plan;
  std::optional<Calibration> calibration;
  std::string profile_note = {};         ///< see profile_note()
  std::vector<OtherOrigin> others = {};  ///< of a plan file: what else it was made for
};

/// --plan, --model, --set, --topology, --baseline, --optimizer, --gradient-type, --gradient-piece,
/// --microbatches, --recompute, --stages, --chunks, --schedule, --memory-margin and --calibration, as
/// `command` offers them.
std::vector<Option> subject_options(const std::string& verb);
/// Warnings go to `err`. UsageError when they do not fit together, InputError when the plan does not fit the
/// model or topology.
Subject subject_of(const std::string& command, const Arguments& arguments, std::ostream& err);

}  // namespace pipesim
