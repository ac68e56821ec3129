#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/recipes/recipe.h"

namespace pipesim {

/// Gives a recipe with pp, vpp and a schedule these layers of each stage, by `first` and `last` where that is
/// enough, and returns them. Where no recipe has them, each group of devices gets as many layers as its
/// stages have together, and those stages are returned. Nothing: no recipe has that either.
std::optional<std::vector<std::int64_t>> take_stage_layers(Recipe& recipe,
                                                           std::span<const std::int64_t> stages);

}  // namespace pipesim
