#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/recipes/expand_recipe.h"

namespace pipesim {

/// The recipe of a plan, or the nearest one.
struct RecognisedRecipe {
  Recipe recipe;                         ///< complete
  std::vector<OperatorId> differing;     ///< whose configs are others than the recipe's
  std::vector<std::string> differences;  ///< of the pipeline and recompute: "schedule gpipe", in a few words
  [[nodiscard]] bool exact() const { return differing.empty() && differences.empty(); }
  /// "tp8,pp8,dp1,sp,mbs1", or "near tp4,dp4,mbs1: 36 of 120 operators are split or placed otherwise, such as
  /// layer1.query".
  [[nodiscard]] std::string str(const OperatorGraph& graph) const;
};

/// Reads degrees off the plan's attention (or its operators with most work), expands the recipe and compares
/// all configs.
RecognisedRecipe recipe_of(const Strategy& strategy, const PlanOptions& options, const RecipeModel& model,
                           const Topology& topology);

}  // namespace pipesim
