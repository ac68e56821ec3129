#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// Help for operands that open_model and open_topology read.
extern const char* const kModelHelp;
extern const char* const kModelDetails;
extern const char* const kTopologyHelp;
extern const char* const kTopologyDetails;

/// A model by what a person writes: "NAME" or "NAME:key=value,…" of the zoo, "FILE.json"
/// or "FILE.json:size=N,…" with other values for its named sizes (models/model_json.h), or a measured profile
/// "FILE.txt:batch=N,profile-batch=P" (models/import_profile.h): N samples of what was measured with P;
/// either is the other where it is left out, both are 64 where both are. InputError with "did you mean"
/// otherwise.
OperatorGraph open_model(const std::string& text);

/// The text of the same model with what --set says: each "KEY=VALUE", or several with commas between them.
/// UsageError when one can't be read, or when two of them, or the text itself, say otherwise.
std::string with_settings(const std::string& model, const std::vector<std::string>& settings);

/// The key behind the model's name that tells its samples: "batch", or the file's name for them; "": none.
std::string batch_key(const std::string& model);

/// Where the name of a model's file ends in its text, if it is a model file.
std::optional<std::string> model_file(const std::string& model);

/// The text of the same model with other samples, or of a profile that was measured with so many. InputError
/// when they are not the model's to choose.
std::string with_batch(const std::string& model, std::int64_t batch);
std::string with_profile_batch(const std::string& model, std::int64_t batch);

/// "" or, of a profile that does not tell with how many samples it was measured, what was taken for that.
std::string profile_note(const std::string& model);

/// A topology: see make_topology in topologies/presets/presets.h.
Topology open_topology(const std::string& text);

/// InputError when the model has nothing of what is to be run again.
void require_recompute(const OperatorGraph& graph, const Recompute& recompute);
/// InputError when weights, gradients and optimizer state alone exceed all devices together: tells how much
/// is missing.
void require_room(const OperatorGraph& graph, const Topology& topology, const PlanOptions& options);

}  // namespace pipesim
