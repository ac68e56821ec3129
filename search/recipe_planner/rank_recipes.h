#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/peer_processes.h"
#include "search/recipe_planner/recipe_bounds.h"
#include "search/recipe_planner/space/recipe_space.h"
#include "search/search.h"

namespace pipesim {

/// What recipes are ranked for.
struct RankingRequest {
  const RecipeModel& model;  ///< with any batch
  const CostModel& costs;
  PlanOptions options;       ///< without pipeline, recomputation, sharding and microbatches
  std::int64_t samples = 0;  ///< of an iteration
  RecipeFilter filter;
  std::function<OperatorGraph(const ModelShape& shape)> graph_of;  ///< the model of another shape
  /// Whether the model can have a batch; empty: any.
  std::function<bool(std::int64_t batch)> takes_batch;
  int threads = 1;    ///< that simulate, 4 at most; the answer is the same with any number of them
  double within = 0;  ///< it ends when no recipe can take less than the best, less this share of it
  /// Rank the same recipes, and simulate some of them for all; nullptr: none. There may be no deadline then.
  PeerProcesses* peers = nullptr;

  /// The model's shape under a recipe; models without experts hand out no tokens.
  [[nodiscard]] ModelShape shape_of(const Recipe& recipe) const {
    return recipe.shape(filter.rules().local_dispatch && model.axes().has(AxisRole::Experts));
  }
};

/// A recipe that was simulated.
struct RatedRecipe {
  Recipe recipe;
  RecipeBound bound;
  Evaluation evaluation;
  Bytes peak;        ///< of the device that needs most memory
  double share = 0;  ///< the most of what plans may use of a device that is used; above 1 it does not fit

  /// Of each device of `topology`.
  void take_memory(const std::vector<DeviceMemory>& peaks, const Topology& topology);
};

/// A recipe that was only bounded.
struct BoundedRecipe {
  Recipe recipe;
  RecipeBound bound;
  Bytes usable;  ///< the largest peak that fits on a device that is in the recipe's communicators
};

/// The answer, so far.
struct RecipeRanking {
  std::int64_t recipes = 0;                 ///< all
  std::int64_t bounded = 0;                 ///< of these
  std::int64_t too_large = 0;               ///< by their bound of memory
  std::int64_t not_possible = 0;            ///< refused by a rule that looks at operators
  static constexpr std::size_t kTold = 10;  ///< the best that fit are told
  std::int64_t too_slow = 0;                ///< simulated until they were found to be no faster than the best
  std::vector<RatedRecipe> rated;  ///< the other simulated ones: those that fit first, then the fastest
  std::int64_t left = 0;       ///< that might be better than the best: time was up, or `within` was reached
  Nanoseconds least_left = 0;  ///< the least bound of these; 0 where some were not bounded
  std::int64_t too_large_to_simulate = 0;  ///< of these: their task graphs did not fit into memory
  std::optional<BoundedRecipe> leanest;    ///< least bound of memory
  std::int64_t refined = 0;                ///< simulated beside these, see refine_ranking()
  /// The best of these recipes, where one beside them is faster and comes first.
  std::optional<RatedRecipe> best_of_set;

  [[nodiscard]] std::int64_t simulated() const { return too_slow + static_cast<std::int64_t>(rated.size()); }
  /// The fastest that fits; null: none was found.
  [[nodiscard]] const RatedRecipe* best() const;
  /// No recipe is better than the best; where there is none, none fits.
  [[nodiscard]] bool proven() const { return left == 0 && bounded == recipes; }
  /// The share of the best's time by which no recipe is better; nothing where that is not known.
  [[nodiscard]] std::optional<double> gap() const;
  /// Of the simulated ones that fit: those than which none is both faster and leaner, the fastest first.
  [[nodiscard]] std::vector<RatedRecipe> pareto_front() const;
};

/// The progress of a ranking.
struct RankingProgress {
  std::int64_t bounded = 0, recipes = 0, simulated = 0;
  Nanoseconds best = 0;     ///< 0: none yet
  double cost_of_best = 0;  ///< of simulating it, see cost_of_simulating()
};

/// Bounds all recipes, and simulates those that might be the fastest that fits, the least bound first, until
/// no bound is below the best. `go_on` is asked now and then; false ends it. It also ends when the thread's
/// deadline passes (sim/base/deadline.h); where that is before recipes are counted, there are 0, and 1 is
/// left.
RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on);

/// Tells progress as that of a search, whose proposals are the recipes that were simulated. Seconds count
/// from this call.
std::function<bool(const RankingProgress&)> told_as_search(ProgressCallback tell);

/// "41,208".
std::string with_separators(std::int64_t number);

}  // namespace pipesim
