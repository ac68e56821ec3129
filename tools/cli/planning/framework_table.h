#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "search/planners/planner.h"
#include "search/recipe_planner/recipe_ranking.h"
#include "tools/cli/planning/search_run.h"
#include "tools/interop/framework/framework.h"

namespace pipesim {

/// The best plan that a framework runs.
struct FrameworkRow {
  const Framework& framework;
  std::optional<RatedRecipe> best;  ///< none was found, or none fits
  std::string note;                 ///< "proven", "best found in 2.1 s", or why there is none
  std::string runtime = {};         ///< that times its plans
  double seconds = 0;               ///< that ranking its recipes took
};

/// Whether each framework's best plan is reported beside that of pipesim itself: recipes are ranked, the
/// model is a decoder, its hosts can be launched, and no framework was asked for.
bool compares_frameworks(const SearchRun& run);

/// Takes the best of the ranked recipes that each framework runs, as it runs them. Then ranks the recipes of
/// each framework, in equal shares of the time that is left until the thread's deadline, or in 10 s each
/// without one.
std::vector<FrameworkRow> framework_rows(const SearchRun& run, const RecipeRanking& ranked);

/// Where a framework's recipe is faster than that of `answer`, under the runtime of the request as well, its
/// plan takes that one's place: the recipes of a framework are fewer, and the best may be found sooner among
/// them.
void take_fastest_of(const std::vector<FrameworkRow>& rows, const PlanRequest& request,
                     PlannerAnswer& answer);

/// A table of their times, memory and distances to the best of all, which took `best` under a runtime of this
/// name.
std::string to_text(const std::vector<FrameworkRow>& rows, Nanoseconds best, const std::string& runtime);
nlohmann::ordered_json json_of(const std::vector<FrameworkRow>& rows, Nanoseconds best);

}  // namespace pipesim
