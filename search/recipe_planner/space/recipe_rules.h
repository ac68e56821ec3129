#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "search/recipes/recipe.h"

namespace pipesim {

/// Which recipes a planner considers: those that a framework runs, with what its users switch on. Without
/// rules all recipes of RecipeSpace are considered, and nothing is switched on.
struct RecipeRules {
  /// Whether the framework runs this complete recipe; empty: it runs all.
  std::function<bool(const Recipe&)> allows;
  /// How copies of a weight may divide its state, first of all not at all. Each is tried over all copies and
  /// over those inside a node.
  std::vector<StateSharding> shardings = plain_shardings();
  /// The same of recipes with a pipeline.
  std::vector<StateSharding> in_pipelines = gathered_once(plain_shardings());
  /// What may be computed again. Of modules those count that the model has.
  std::vector<Recompute> recomputes = {Recompute(), Recompute::selective(), {Recompute::Kind::Full}};
  /// When gradients are reduced; nothing: as recipes do that say nothing.
  std::optional<GradientReduction> reduction;
  /// What stages do while they send each other tensors, where recipes say nothing.
  MessageOverlap messages = MessageOverlap::Always;
  /// Products hide transfers of tp where there is sp.
  bool tensor_overlap = false;
  /// Devices hand out their own tokens to experts (Recipe::shape()); else as the model says.
  bool local_dispatch = false;

  [[nodiscard]] const std::vector<StateSharding>& shardings_of(bool pipeline) const {
    return pipeline ? in_pipelines : shardings;
  }

  /// zero 0 to 3, with all other parts as recipes have them that say nothing.
  static std::vector<StateSharding> plain_shardings() {
    std::vector<StateSharding> all;
    for (int kind = 0; kind <= static_cast<int>(StateSharding::Kind::Weights); ++kind)
      all.emplace_back().kind = static_cast<StateSharding::Kind>(kind);
    return all;
  }
  /// The same, where zero3 gathers weights once an iteration: in a pipeline, several microbatches are under
  /// way, and what each of them gathers would be the same weights.
  static std::vector<StateSharding> gathered_once(std::vector<StateSharding> all) {
    for (StateSharding& sharding : all) {
      if (sharding.kind == StateSharding::Kind::Weights) sharding.reshard = StateSharding::Reshard::Last;
    }
    return all;
  }
  /// The same, where zero1 and zero2 gather weights during the next forward.
  static std::vector<StateSharding> overlapped_shardings() {
    std::vector<StateSharding> all = plain_shardings();
    for (StateSharding& sharding : all)
      sharding.overlaps_gather = sharding.any() && !sharding.gathers_to_use();
    return all;
  }
};

}  // namespace pipesim
