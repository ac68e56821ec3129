#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/recipe_estimate.h"
#include "search/recipe_planner/space/recipe_space.h"

namespace pipesim {

/// Open recipes in the order of their estimated times; those that hardly fit into memory by their estimate
/// come later. Estimates are those of the last refresh(), so that learning costs nothing in between.
class EstimateOrder {
 public:
  /// `space` must outlive it. `cost` returns the cost of simulating a recipe of a mesh, as a share of the
  /// most that is simulated. Among recipes with nearly the same estimate the dearer ones come later. While
  /// none is known to fit, dear ones come later in any case.
  EstimateOrder(const RecipeSpace& space, std::function<double(std::uint32_t mesh)> cost);

  void add(const OpenRecipe& recipe);
  /// The first whose bound is below `bound`, if its estimate (ns) is below `estimate`.
  std::optional<OpenRecipe> take_first(Nanoseconds bound, double estimate);
  /// Updates estimates by what was learned. `one_fits`: a recipe that fits is known; until then, recipes that
  /// are likely to fit are preferred more.
  void refresh(bool one_fits);
  /// Meshes with the least estimate of their recipes (ns), at the last refresh(), the least first.
  [[nodiscard]] std::span<const std::pair<double, std::uint32_t>> meshes() const { return meshes_; }
  /// Hands over all, in no order, and is empty then.
  void take_all(const std::function<void(const OpenRecipe&)>& each);

  /// Learns that a closer bound has taken the place of another.
  void learn_closer(const OpenRecipe& before, const OpenRecipe& after);
  /// Learns that the recipe takes this time, or at least this time.
  void learn_time(const OpenRecipe& recipe, Nanoseconds time);
  /// Learns the share of memory that a recipe needs of what a device may use: by the bound, and as simulated.
  void learn_memory(const OpenRecipe& recipe, double bound, double share);

  /// Whether what is learned of one tells much of the other: they are of one class but for recomputation.
  [[nodiscard]] bool alike(const OpenRecipe& a, const OpenRecipe& b) const;

 private:
  // Recipes of one class with the same kind of bound: the least bound is the least estimate.
  struct Group {
    EstimateClass of;
    OpenRecipe::Known known = OpenRecipe::Known::OfParts;
    bool tight = false;  // hardly fit into memory
    OpenBounds<OpenRecipe> recipes;
    double cost = 0;
    double time_ratio = 1, memory_ratio = 1;
    bool memory_known = false;  // of a recipe like them
    double estimate = 0;        // of the first
  };
  using Place = std::pair<double, std::size_t>;  // an estimate and the number of its group
  [[nodiscard]] EstimateClass class_of(const OpenRecipe& recipe) const;
  [[nodiscard]] static std::vector<std::uint32_t> works_of(const RecipeSpace& space);
  Group& group_of(const OpenRecipe& recipe, bool tight);
  void update(Group& group);
  void place(std::size_t group);

  const RecipeSpace& space_;
  std::function<double(std::uint32_t)> cost_;
  std::map<std::string, std::uint8_t> schedules_;  // numbers of names
  std::vector<std::uint32_t> works_;               // by mesh: EstimateClass::work
  RecipeEstimate estimate_;
  bool one_fits_ = false;
  std::unordered_map<std::uint64_t, std::size_t> number_of_;  // of groups
  std::vector<Group> groups_;
  std::vector<Place> places_;  // a heap; some are out of date
  std::vector<std::pair<double, std::uint32_t>> meshes_;
};

}  // namespace pipesim
