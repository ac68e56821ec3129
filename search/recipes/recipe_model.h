#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "search/recipes/model_axes.h"
#include "search/recipes/recipe.h"

namespace pipesim {

/// A model as recipes see it.
class RecipeModel {
 public:
  /// The graph must outlive it.
  explicit RecipeModel(const OperatorGraph& graph);

  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const ModelAxes& axes() const { return axes_; }
  /// Returns the layer of each operator. An operator between two layers goes with the one before; kNoLayer is
  /// in front of the first layer, and num_layers() is behind the last.
  [[nodiscard]] const std::vector<std::int32_t>& layer_of() const { return layer_of_; }
  [[nodiscard]] std::int64_t num_layers() const { return num_layers_; }

  /// Why the recipe does not suit the model: a degree that does not divide heads, features, sequence, experts
  /// or layers, or experts' degrees that do not divide the devices of a stage. Nothing when it does. The
  /// number of samples is not looked at.
  [[nodiscard]] std::optional<std::string> illegal(const Recipe& recipe) const;

 private:
  [[nodiscard]] std::vector<OperatorId> find_asked() const;
  [[nodiscard]] std::optional<std::string> illegal_tensor(const Recipe& recipe) const;
  [[nodiscard]] std::optional<std::string> illegal_ring(const Recipe& recipe) const;
  [[nodiscard]] std::optional<std::string> illegal_experts(const Recipe& recipe) const;

  const OperatorGraph& graph_;
  ModelAxes axes_;
  std::vector<std::int32_t> layer_of_;
  std::int64_t num_layers_ = 0;
  std::vector<OperatorId> asked_;  // see find_asked()
};

/// The recipe with everything that follows from the number of devices: dp, and mbs where it was not said (1).
/// InputError when the degrees do not multiply up to the devices, with the nearest legal recipe of `model`,
/// if that is given.
Recipe completed(Recipe recipe, std::int64_t devices, const RecipeModel* model = nullptr);

/// The number of layers of each stage of a pipeline, or an error that says why there is no such division.
/// device_of_stage() says on which of the pp groups a stage runs. Without `first` and `last`, every stage has
/// as many; where that does not come out even, embedding and head may count as a layer.
struct LayerDivision {
  std::vector<std::int64_t> layers;
  std::string error;
};
LayerDivision divide_layers(const Recipe& recipe, std::int64_t layers);

/// A legal recipe for as many devices that is as near as possible to one that is not: few degrees change, by
/// small factors. Nothing when there is none.
std::optional<Recipe> nearest_legal(const Recipe& recipe, const RecipeModel& model, std::int64_t devices);

/// What messages say of a recipe that is not legal: "; the nearest that is possible: …", or "".
std::string nearest_text(const Recipe& recipe, const RecipeModel& model, std::int64_t devices);

}  // namespace pipesim
