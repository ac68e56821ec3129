#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "search/auto/contest.h"
#include "search/planners/algorithm.h"

namespace pipesim {

/// Asks for plans, each for its share of the time: recipes, baselines and planners, in the number of
/// microbatches that was asked for and in others.
class PlannerTurns {
 public:
  /// The contest must outlive it.
  explicit PlannerTurns(Contest& contest);

  /// Whether only recipes are asked for: planners and searches over splits are slow where there are so many
  /// operators, counted on each device.
  [[nodiscard]] bool only_recipes() const { return only_recipes_; }
  /// Whether a search over splits comes before planners. Where there are no recipes and only time is limited,
  /// it soon finds better plans than they do.
  [[nodiscard]] bool begins_with_splits() const;
  void ask_baselines();
  /// Asks for the best of all recipes, with a proof where there is time for it. Where it finds none, all else
  /// is asked for.
  void ask_recipes();
  /// Asks for data parallelism in other numbers of microbatches, and for the recipe to begin with.
  void ask_simple_plans();
  void ask_planners();
  /// Asks for the splits without stages whose costs add up to least.
  void ask_intra();
  /// Asks again those planners that had too little time, where searches over splits have no use for it.
  void ask_late_planners();
  /// Returns the recipes that were ranked, at the first call; nothing where none were.
  [[nodiscard]] std::optional<RecipeRanking> take_ranking() { return std::exchange(ranking_, std::nullopt); }

 private:
  struct Ask {
    const Algorithm* planner;
    std::int32_t microbatches;
  };
  void rank_recipes();
  PlannerAnswer ranked(std::string& none_left);
  void ask_data_parallel();
  void ask_recipe();
  std::vector<Ask> ask_each(const std::vector<Ask>& asks, double end);
  const Problem& problem_with(std::int32_t microbatches);
  bool ask_planner(const Algorithm& planner, std::int32_t microbatches, double seconds);

  Contest& contest_;
  const PlanRequest& request_;
  std::map<std::int32_t, Problem> problems_;  // by microbatches, other than those that are asked for
  bool has_recipes_;                          // that may be ranked
  bool only_recipes_;                         // are asked, and a joint search from the best
  std::optional<RecipeRanking> ranking_;
  std::vector<Ask> late_;  // planners that had too little time
};

}  // namespace pipesim
