#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "search/recipe_planner/recipe_ranking.h"

namespace pipesim {

/// What a planner over recipes found: the best ten that fit, and the Pareto front of time and memory of those
/// that were simulated.
std::string to_text(const RecipeRanking& ranking);
nlohmann::ordered_json json_of(const RecipeRanking& ranking);

}  // namespace pipesim
