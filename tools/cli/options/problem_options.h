#pragma once

#include <optional>

#include "search/auto/algorithms.h"
#include "search/problem.h"
#include "search/recipes/recipe.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// What --model, --topology and the options of plans ask of an algorithm, which may begin with a recipe that
/// this completes. The model of an algorithm that ranks recipes, whose tensors would be too large with all
/// samples in one microbatch, gets more microbatches where no option sets their number. UsageError and
/// InputError name what does not fit together, or a file, model or topology at fault.
Problem problem_of(const Arguments& arguments, const Algorithm& algorithm, std::optional<Recipe>& start);

/// Whether the algorithm ranks recipes of this model.
bool ranks_recipes_of(const Algorithm& algorithm, const OperatorGraph& graph);

}  // namespace pipesim
