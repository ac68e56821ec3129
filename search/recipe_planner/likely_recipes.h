#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "search/recipe_planner/estimate_order.h"
#include "search/recipe_planner/mesh_walk.h"
#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/recipe_trials.h"

namespace pipesim {

/// The part of a ranking that soon has a plan, which gets better with time. It walks from usual meshes to
/// their neighbours where that leads to less time, and simulates recipes that are likely to be fast, the
/// least estimate first. Once there is a plan, usual meshes with large microbatches join. It proves nothing.
class LikelyRecipes {
 public:
  /// `trials` must outlive it.
  explicit LikelyRecipes(RecipeTrials& trials);

  /// Ends when nothing near is likely to be nearly as fast as the best, or, after that, not much slower; or
  /// when it may not go on. OutOfTime when time was up. take_left() may be called in any case.
  void search();
  /// Hands over what was bounded and might still be best, and keeps nothing.
  void take_left(const std::function<void(const OpenRecipe&)>& each);

 private:
  struct Begun {
    OpenRecipe recipe;
    Nanoseconds expected = 0;  // from few microbatches
    double seconds = 0;        // that simulating all may take
  };

  [[nodiscard]] Nanoseconds bound_to_gain() const;
  [[nodiscard]] double estimate_of_interest(double times) const;
  [[nodiscard]] bool one_fits() const { return trials_.best() != nullptr || !begun_.empty(); }

  [[nodiscard]] std::vector<std::uint32_t> next_to_fast_ones();
  void walk_from(std::uint32_t mesh, std::vector<std::uint32_t>& found);
  void add_large_ones(std::vector<std::uint32_t>& meshes);
  bool explore(std::vector<std::uint32_t> meshes);

  std::vector<RecipeTrial> likely_trials();
  std::vector<RecipeTrial> begun_trials();
  void add_trial(const OpenRecipe& recipe, std::vector<RecipeTrial>& to);
  [[nodiscard]] std::vector<Begun>::const_iterator next_begun() const;
  [[nodiscard]] bool is_time_for_begun() const;
  void bound_likely(OpenRecipe recipe);
  void put_back(const std::vector<RecipeTrial>& trials);
  void simulate(std::vector<RecipeTrial>& trials);
  void conclude(RecipeTrial& trial);
  void learn(const RecipeTrial& trial);

  RecipeTrials& trials_;
  EstimateOrder order_;
  std::optional<MeshWalk> walk_;
  std::size_t walked_at_once_ = 1;  // times as many meshes as where simulations are short
  bool walked_large_ = false;       // usual meshes with large microbatches
  std::set<std::uint32_t> walked_;  // of which all neighbours are explored
  std::vector<std::pair<double, std::uint32_t>> without_fit_;  // meshes, by time and by what they lack
  double likely_ = 1;           // so many times the best, estimates are of interest
  std::vector<Begun> begun_;    // those likely to fit that are not simulated in full yet
  double left_for_begun_ = -1;  // seconds: with less time left they are simulated before all else
};

}  // namespace pipesim
