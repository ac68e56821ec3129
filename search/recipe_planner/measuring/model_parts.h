#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/recipes/recipe_model.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {

/// How many recomputations a set of recipes may have, none included.
inline constexpr std::size_t kMostRecomputes = 8;

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
  /// `recomputes`: of the recipes that are bounded. None is added where it is missing. InternalError where
  /// there are more than kMostRecomputes.
  ModelParts(const RecipeModel& model, std::span<const Recompute> recomputes);

  ModelPart front, behind;
  std::vector<ModelPart> layers;
  std::vector<std::size_t> class_of;        ///< by layer
  std::vector<std::size_t> representative;  ///< by class: its layer
  std::vector<Recompute> recomputes;        ///< none first
  /// By number of a recomputation, where there is one that the model allows.
  std::array<std::optional<Recomputation>, kMostRecomputes> recomputation;
  /// The number of one of `recomputes`.
  [[nodiscard]] std::size_t number_of(const Recompute& recompute) const;

  [[nodiscard]] const ModelPart& of_class(std::size_t number) const { return layers[representative[number]]; }
};

}  // namespace pipesim
