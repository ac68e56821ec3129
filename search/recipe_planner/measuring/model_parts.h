#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/recipes/recipe_model.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {

/// The recomputations of recipes, in the order of arrays by kind.
inline constexpr std::array kRecipeRecomputes{Recompute::Kind::None, Recompute::Kind::Selective,
                                              Recompute::Kind::Full};
inline constexpr std::size_t kNumRecomputes = kRecipeRecomputes.size();
[[nodiscard]] constexpr std::size_t number_of(Recompute::Kind kind) {
  return kind == Recompute::Kind::None ? 0 : kind == Recompute::Kind::Selective ? 1 : 2;
}

/// Operators that stand together: what is in front of the layers, a layer, or what is behind them.
struct ModelPart {
  std::vector<OperatorId> operators;  ///< ascending
  /// The activation that comes in from the part before, where it is the only one that part makes for others
  /// and only this part reads it. Chains through parts follow it.
  std::optional<TensorId> entry;
  /// The activation that the next part reads likewise; of the last part the loss.
  std::optional<TensorId> exit;
};

/// A model as parts, of which layers that are alike in operators, wiring and recomputation are of one class.
/// Costs of a class hold for all its layers.
struct ModelParts {
  explicit ModelParts(const RecipeModel& model);

  ModelPart front, behind;
  std::vector<ModelPart> layers;
  std::vector<std::size_t> class_of;        ///< by layer
  std::vector<std::size_t> representative;  ///< by class: its layer
  /// By kind of recomputation, where the model allows it.
  std::array<std::optional<Recomputation>, kNumRecomputes> recomputation;

  [[nodiscard]] const ModelPart& of_class(std::size_t number) const { return layers[representative[number]]; }
};

}  // namespace pipesim
