#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_json.h"
#include "models/onnx/onnx_model.h"
#include "models/operator_graph.h"
#include "search/recipes/recipe.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// Help for operands that open_model and open_topology read.
extern const char* const kModelHelp;
extern const char* const kModelDetails;
extern const char* const kTopologyHelp;
extern const char* const kTopologyDetails;

/// Opens a model from text: "NAME" or "NAME:key=value,…" of the zoo; "FILE.json" or "FILE.json:size=N,…" with
/// other values for its named sizes (models/model_json.h); "FILE.onnx:size=N,…" (models/onnx_model.h); or a
/// measured profile "FILE.txt:batch=N,profile-batch=P" (models/import_profile.h), where N samples run and the
/// measurement had P. If only one of batch and profile-batch is given, the other is equal to it; if neither
/// is, both are 64. InputError with "did you mean" otherwise.
OperatorGraph open_model(const std::string& text);

/// The text of the same model with the settings of --set: each is "KEY=VALUE", or several separated by
/// commas. UsageError when one can't be read, or when two of them, or one and the text, contradict each
/// other.
std::string with_settings(const std::string& model, const std::vector<std::string>& settings);

/// Where the text names the config.json of a model of Hugging Face: the text of the zoo model that it
/// describes (models/hugging_face.h), with the keys behind the file's name. Other texts as they are.
std::string model_of_config(const std::string& text);

/// What the config.json that the text names asks for and the zoo model does not have, and what was guessed,
/// but for what keys behind the file's name overrule; nothing for other texts.
std::vector<std::string> left_out_of_config(const std::string& text);

/// The key behind the model's name that sets its samples: "batch", or the file's name for that size; "":
/// none.
std::string batch_key(const std::string& model);

/// The name of a model's file in its text, if it is a model file or an ONNX file.
std::optional<std::string> model_file(const std::string& model);
bool is_onnx_file(const std::string& file);
/// The model of an ONNX file, with what is to be said about it.
OnnxModel open_onnx(const std::string& text);
/// The sizes that a model file names. Those of an ONNX file have no value, which is 0 here.
ModelFileSizes model_file_sizes(const std::string& file);

/// The first function returns the text of the same model with other samples. The second does so for a profile
/// that was measured with `batch` samples. InputError when the model does not let them be chosen.
std::string with_batch(const std::string& model, std::int64_t batch);
/// The text of a zoo model whose positions come in an order in which `parts` parts of the sequence do equal
/// work (ZigzagOrder). The text of other models stays as it is, and so does one whose text or sequence says
/// otherwise.
std::string with_zigzag(const std::string& model, const OperatorGraph& graph, std::int64_t parts);
/// The text of a zoo model whose experts take each of so many groups of a sample's tokens by itself. With 0
/// groups or without experts, the text stays as it is.
std::string with_token_groups(const std::string& model, std::int64_t groups);
/// The text of the model in another shape. `graph`: of the model.
std::string with_shape(const std::string& model, const OperatorGraph& graph, const ModelShape& shape);
std::string with_profile_batch(const std::string& model, std::int64_t batch);

/// For a profile that does not say with how many samples it was measured: the number that was assumed. Else
/// "".
std::string profile_note(const std::string& model);

/// A topology: see make_topology in topologies/presets/presets.h.
Topology open_topology(const std::string& text);

/// InputError when the model has no operators of the kind that is to be recomputed, or has to have stages.
void require_recompute(const OperatorGraph& graph, const Recompute& recompute, bool with_stages = false);
/// InputError when the model can't have this imbalance of its experts.
void require_imbalance(const OperatorGraph& graph, const Imbalance& imbalance);
/// How many devices of the same kind it takes to hold weights, gradients and optimizer state, where all
/// devices of the topology together do not, and a text that says what is missing.
struct MissingRoom {
  std::int64_t devices = 0;
  std::string text;  ///< "weights, gradients and adam state need 12 TB, all 8 devices together have …"
};
std::optional<MissingRoom> missing_room(const OperatorGraph& graph, const Topology& topology,
                                        const PlanOptions& options);
/// InputError where room is missing.
void require_room(const OperatorGraph& graph, const Topology& topology, const PlanOptions& options);

}  // namespace pipesim
