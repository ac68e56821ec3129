#pragma once

#include <cstdint>
#include <string>

#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// Help for operands that open_model and open_topology read.
extern const char* const kModelHelp;
extern const char* const kTopologyHelp;

/// A model by what a person writes: "NAME" or "NAME:key=value,…" of the zoo, "FILE.json"
/// (models/model_json.h), or a measured profile "FILE.txt:batch=N,profile-batch=P" (models/import_profile.h):
/// N samples of what was measured with P; either is the other where it is left out, both are 64 where both
/// are. InputError with "did you mean" otherwise.
OperatorGraph open_model(const std::string& text);

/// The text of the same model with other samples, or of a profile that was measured with so many. InputError
/// when they are not the model's to choose.
std::string with_batch(const std::string& model, std::int64_t batch);
std::string with_profile_batch(const std::string& model, std::int64_t batch);

/// "" or, of a profile that does not tell with how many samples it was measured, what was taken for that.
std::string profile_note(const std::string& model);

/// A topology: see make_topology in topologies/presets.h.
Topology open_topology(const std::string& text);

}  // namespace pipesim
