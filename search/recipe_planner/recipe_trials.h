#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/ranking_request.h"
#include "search/recipe_planner/recipe_bounder.h"
#include "search/recipe_planner/recipe_ranking.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/recipe_planner/space/recipe_space.h"
#include "search/worker_threads.h"

namespace pipesim {

/// A recipe that is simulated: with few microbatches first, and with all of them only where the bound from
/// the few is still among the least.
struct RecipeTrial {
  OpenRecipe candidate;
  RatedRecipe rated;
  std::shared_ptr<SizedRecipeModel> sized;
  std::optional<Nanoseconds> limit;  ///< all microbatches, until it is found to take as long
  bool done = false;
  double seconds = 0;  ///< that it would take with all microbatches, about
  RecipeScorer::Verdict verdict = RecipeScorer::Verdict::Open;
};

/// The candidate of a trial that stays open, with the bound and the memory that few microbatches tell.
OpenRecipe bounded_by_few(const RecipeTrial& trial);

/// Bounds and simulates recipes for a ranking, and keeps what is known of them so far: the counts, and the
/// best. Callers decide which recipes come first. For one thread at a time.
class RecipeTrials {
 public:
  /// Recipes that are simulated at the same time, at most.
  static constexpr std::size_t kMostAtATime = 4;
  using GoOn = std::function<bool(const RankingProgress&)>;

  /// Both must outlive it.
  RecipeTrials(const RankingRequest& request, const GoOn& go_on);

  [[nodiscard]] const RankingRequest& request() const { return request_; }
  [[nodiscard]] const RecipeSpace& space() const { return space_; }
  [[nodiscard]] RecipeBounder& bounder() { return bounder_; }
  [[nodiscard]] RecipeRanking& ranking() { return ranking_; }
  [[nodiscard]] const RecipeRanking& ranking() const { return ranking_; }

  /// Asks whether the ranking may go on. Throws OutOfTime when the thread's deadline has passed.
  bool may_go_on();
  /// Whether there is a plan, and RankingRequest::kFewSimulated recipes are simulated.
  [[nodiscard]] bool has_few() const;
  /// From now on the ranking ends as soon as has_few() is true.
  void stop_at_few() { stops_at_few_ = true; }
  /// Whether the last answer was that it may go on.
  [[nodiscard]] bool goes_on() const { return goes_on_; }
  /// Returns the seconds until the thread's deadline; infinity without one.
  [[nodiscard]] static double seconds_left();

  /// The fastest that fits; null: none was found.
  [[nodiscard]] const RatedRecipe* best() const { return best_; }
  /// Its time (ns); the largest number where there is none.
  [[nodiscard]] Nanoseconds best_time() const;
  [[nodiscard]] bool may_be_best(Nanoseconds bound) const { return best_ == nullptr || bound < best_time(); }
  /// Bounds from this on are of no interest: they are no less than the best time, or less by so little that
  /// it does not matter (RankingRequest::within).
  [[nodiscard]] Nanoseconds bound_of_interest() const;

  /// Returns the cost of simulating a recipe of the mesh, see cost_of_simulating().
  [[nodiscard]] double cost_of(std::uint32_t mesh) const;

  /// Whether all recipes of the mesh are bounded, one by one or together.
  [[nodiscard]] bool is_bounded(std::uint32_t mesh) const { return is_bounded_[mesh]; }
  void note_bounded(std::uint32_t mesh);
  void note_impossible(std::uint32_t mesh);
  /// Bounds every recipe of a measured mesh, and calls `each` for those that may fit. Returns the least share
  /// of what plans may use that any of them needs.
  double bound_recipes(std::uint32_t mesh, const std::function<void(const OpenRecipe&)>& each);
  /// Finds the next closer bound of all these recipes, for which they must need the same measurements.
  void bound_closer(std::span<OpenRecipe> recipes);

  /// Nothing where its tensors would be too large. OutOfTime may leave it undone.
  std::optional<RecipeTrial> trial_of(const OpenRecipe& recipe);
  /// Returns what the recipe needs at least, as a share of what plans may use.
  [[nodiscard]] double bounded_share(const RecipeTrial& trial) const;
  /// Simulates all at the same time, and calls `concluded` for each that has a verdict. At OutOfTime it calls
  /// `put_back` for the others, and throws it again.
  void simulate(std::vector<RecipeTrial>& all, const std::function<void(RecipeTrial&)>& concluded,
                const std::function<void(const OpenRecipe&)>& put_back);
  /// Returns the recipes whose task graphs are too large for this machine.
  [[nodiscard]] const std::vector<OpenRecipe>& unsimulated() const { return unsimulated_; }

 private:
  void run(std::vector<RecipeTrial>& all);
  [[nodiscard]] bool is_own(std::size_t number) const;
  void share(std::vector<RecipeTrial>& all) const;
  void conclude(RecipeTrial& trial);

  const RankingRequest& request_;
  const GoOn& go_on_;
  RecipeSpace space_;
  WorkerThreads threads_;
  RecipeBounder bounder_;
  std::vector<RecipeScorer> scorers_;  // by thread
  SimulationMemory memory_;
  std::vector<bool> is_bounded_;  // by mesh
  std::vector<OpenRecipe> unsimulated_;
  RecipeRanking ranking_;
  const RatedRecipe* best_ = nullptr;
  std::size_t best_number_ = 0;
  double cost_of_best_ = 0;
  bool goes_on_ = true, stops_at_few_ = false;
};

}  // namespace pipesim
