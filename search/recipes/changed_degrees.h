#pragma once

#include <cstdint>

#include "search/recipes/recipe.h"

namespace pipesim {

/// Sets tp. Without it there is neither sp nor overlap of its transfers.
inline void set_tensor(Recipe& recipe, std::int64_t parts) {
  recipe.tensor = parts;
  recipe.sequence_parallel = recipe.sequence_parallel && parts > 1;
  if (parts == 1) recipe.tensor_overlap.reset();
}

/// Sets pp; another number of groups has other layers on each. Without a pipeline there are neither chunks
/// nor a schedule.
inline void set_pipeline(Recipe& recipe, std::int64_t groups) {
  recipe.pipeline = groups;
  recipe.first.reset(), recipe.last.reset(), recipe.layers.clear();
  if (groups == 1)
    recipe.chunks = 1, recipe.schedule.clear(), recipe.reduction.reset(), recipe.messages.reset();
}

}  // namespace pipesim
