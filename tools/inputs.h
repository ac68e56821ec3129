#pragma once

#include <string>

#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// Help for operands that open_model and open_topology read.
extern const char* const kModelHelp;
extern const char* const kTopologyHelp;

/// A model by what a person writes: "NAME" or "NAME:key=value,…" of the zoo, "FILE.json"
/// (models/model_json.h), or a measured profile "FILE.txt" or "FILE.txt:batch=N" (models/import_profile.h); N
/// is the batch that was profiled, 64 when left out. InputError with "did you mean" otherwise.
OperatorGraph open_model(const std::string& text);

/// A topology: see make_topology in topologies/presets.h.
Topology open_topology(const std::string& text);

}  // namespace pipesim
