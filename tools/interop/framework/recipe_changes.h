#pragma once

#include <string>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// A recipe that differs in one choice, in the framework's words.
struct RecipeChange {
  Recipe recipe;
  std::string text;  ///< "--recompute-granularity selective instead of full"
};

/// All recipes one choice away from the plan's that the framework runs and that suit the model: another
/// recomputation (of half or a quarter of the layers, too), sharding, overlap, microbatch or number of
/// chunks, what attention exchanges along cp, or twice or half of a degree in exchange for copies, or of tp
/// in exchange for pp.
std::vector<RecipeChange> recipe_changes(const Framework& framework, const FrameworkPlan& plan,
                                         const RecipeModel& model);

/// How the settings of two plans differ: "--micro-batch-size 2 instead of 1, without --sequence-parallel".
std::string settings_difference(const Framework& framework, const FrameworkPlan& before,
                                const FrameworkPlan& after);

}  // namespace pipesim
