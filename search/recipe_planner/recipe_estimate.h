#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "search/recipe_planner/open_recipes.h"

namespace pipesim {

/// Logarithms of ratios that were seen in classes of recipes, from the widest class to the narrowest. A class
/// in which nothing was seen takes what the next wider one expects.
template <std::size_t kWidths>
class LearnedRatios {
 public:
  using Classes = std::array<std::uint64_t, kWidths>;  ///< numbers, the widest class first

  void learn(const Classes& classes, double log_ratio);
  /// The expected logarithm, where `prior` is expected before anything is seen. Classes before `widest` tell
  /// nothing.
  [[nodiscard]] double expected(const Classes& classes, double prior, std::size_t widest = 0) const;
  /// Whether anything was seen in the class of this width or a narrower one.
  [[nodiscard]] bool has_seen(const Classes& classes, std::size_t width) const;

 private:
  struct Seen {
    double sum = 0, count = 0;
  };
  std::array<std::unordered_map<std::uint64_t, Seen>, kWidths> seen_;
};

/// What the time and memory of a recipe are estimated by, beside its bounds.
struct EstimateClass {
  static constexpr std::uint8_t kReducesEach = 2, kGathersEach = 3, kKeepsGathered = 4;
  /// 0 without state sharding, 1 where it acts once an iteration, or what each microbatch does (k…Each), or
  /// that it keeps what it gathered as well.
  std::uint8_t zero = 0;
  bool pipelined = false;
  bool far_experts = false;  ///< experts are divided beyond a node
  /// Among whom each microbatch gathers weights or adds up gradients; None where it does not. This is of the
  /// weights that make up most of the model: those of experts, where experts are divided.
  enum class Copies : std::uint8_t { None, InNode, BetweenNodes } copies = Copies::None;
  /// Gathering and adding up take a longer part of a microbatch the fewer samples a device has. This is the
  /// logarithm of their number to base 2, plus a constant; else 0.
  std::uint8_t samples = 0;
  std::uint8_t schedule = 0;   ///< a number of its name
  std::uint8_t recompute = 0;  ///< as in OpenRecipe
  std::uint8_t sharding = 0;   ///< as in OpenRecipe
  std::uint32_t mesh = 0;      ///< as in OpenRecipe
  /// Tells apart what a device does in a microbatch. Meshes that differ only in how they divide samples do
  /// the same.
  std::uint32_t work = 0;
  bool operator==(const EstimateClass&) const = default;
};

/// Estimates the time and memory of recipes from their bounds and from how far those that were simulated were
/// above theirs. An estimate only says what to look at first: it proves nothing.
class RecipeEstimate {
 public:
  /// Returns the expected ratio of the time of recipes of a class to a bound of this kind. `by_samples`: slow
  /// recipes with few samples on a device do not speak against those with many, which are as expected before
  /// anything was seen.
  [[nodiscard]] double time_over_bound(const EstimateClass& of, OpenRecipe::Known known,
                                       bool by_samples) const;
  /// Returns the expected ratio of memory to its bound.
  [[nodiscard]] double memory_over_bound(const EstimateClass& of) const;
  /// Whether that ratio was seen in a recipe under which a device does the same.
  [[nodiscard]] bool knows_memory(const EstimateClass& of) const;

  /// A closer bound of kind `after` took the place of one of kind `before`.
  void learn_closer(const EstimateClass& of, OpenRecipe::Known before, OpenRecipe::Known after,
                    Nanoseconds bound, Nanoseconds closer);
  /// A recipe was simulated, or found to take at least as long.
  void learn_time(const EstimateClass& of, OpenRecipe::Known known, Nanoseconds bound, Nanoseconds time);
  /// Both are shares of what a device may use.
  void learn_memory(const EstimateClass& of, double bound, double share);

 private:
  static constexpr std::size_t kKinds = 4;      // of OpenRecipe::Known
  std::array<LearnedRatios<6>, kKinds> times_;  // of the next closer bound over this one; last, of the time
  LearnedRatios<5> memory_;
};

}  // namespace pipesim
