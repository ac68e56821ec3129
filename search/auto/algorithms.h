#pragma once

#include <span>
#include <string_view>

#include "search/planners/algorithm.h"

namespace pipesim {

/// All algorithms that a search can be asked for, in the order in which help lists them. A new planner of
/// stages is a row in search/planners/planner.cc, any other algorithm is one in algorithms.cc.
std::span<const Algorithm> algorithms();
/// The algorithm of this name. InternalError where there is none: names are checked when they are read.
const Algorithm& algorithm_named(std::string_view name);
/// Those that plan stages, recipes or splits without scoring baselines first.
std::span<const Algorithm* const> planners();
/// The one that ranks recipes and does nothing else.
const Algorithm& recipe_algorithm();
/// The algorithm that is asked when nobody names one.
const Algorithm& default_algorithm();

}  // namespace pipesim
