#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "search/recipe_planner/rank_recipes.h"
#include "tools/commands/planning/planner_run.h"
#include "tools/frameworks/framework.h"

namespace pipesim {

/// The best plan that a framework runs.
struct FrameworkRow {
  const Framework& framework;
  std::optional<RatedRecipe> best;  ///< none was found, or none fits
  std::string note;                 ///< "proven", "best found in 2.1 s", or why there is none
};

/// Whether the best plan of each framework is worth telling beside that of pipesim itself: the model is a
/// decoder, its hosts can be launched, and no framework was asked for.
bool compares_frameworks(const PlannerRun& run);

/// Ranks the recipes of each framework, each in an equal share of the time that is left of the thread's
/// deadline, or 10 s without one. Where that finds none that fits, those that were ranked already are tried.
std::vector<FrameworkRow> framework_rows(const PlannerRun& run, const RecipeRanking& ranked);

/// A table of their times, memory and distances to the best of all.
std::string to_text(const std::vector<FrameworkRow>& rows, Nanoseconds best);
nlohmann::ordered_json json_of(const std::vector<FrameworkRow>& rows, Nanoseconds best);

}  // namespace pipesim
