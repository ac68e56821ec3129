#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/recipe_planner/recipe_bounds.h"
#include "search/recipes/recipe.h"
#include "sim/base/units.h"
#include "taskgraph/memory/peak_memory.h"
#include "topologies/topology.h"

namespace pipesim {

/// Memory as a share of what plans may use of a device.
double share_of(Bytes memory, Bytes usable);

/// A recipe that was simulated.
struct RatedRecipe {
  Recipe recipe;
  RecipeBound bound;
  Evaluation evaluation;
  Bytes peak;        ///< of the device that needs most memory
  double share = 0;  ///< the most of what plans may use of a device that is used; above 1 it does not fit

  /// Sets peak and share; `peaks` has each device of `topology`.
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
  /// Returns the simulated recipes that fit and than which no other is both faster and leaner, the fastest
  /// first.
  [[nodiscard]] std::vector<RatedRecipe> pareto_front() const;
};

/// "41,208".
std::string with_separators(std::int64_t number);

}  // namespace pipesim
