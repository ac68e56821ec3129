#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/recipe_planner/space/recipe_rules.h"
#include "search/recipes/recipe.h"

namespace pipesim {

/// Names of the schedules that the planner tries: those of plan_schedules(), and those that go both ways.
std::vector<std::string> recipe_schedules();

/// The parts of a recipe that a set of recipes may be narrowed by.
enum class RecipeTrait : std::uint8_t {
  Tensor,
  Context,
  Data,
  Expert,
  ExpertTensor,
  Pipeline,
  Chunks,
  Microbatch,
  SequenceParallel,  ///< "on" or "off"
  Zero,              ///< "0" to "3"
  Shard,             ///< copies that divide state, or "all"
  Recompute,         ///< "none", "selective", "full"
  Schedule,          ///< its name, or "none" without a pipeline
  First,             ///< layers on the first group, or "even": as many as on the others
  Last,
  Gather,  ///< "overlap": weights are gathered in the next forward ("gather"), or after the update ("none")
  Reduction,      ///< "reduce": "overlapped" or "after-steps"; without a pipeline, overlapped
  TensorOverlap,  ///< "tp-overlap": "always" or "never"
  Messages        ///< "beside" or "blocking", or "none" without a pipeline; 1f1b that says nothing blocks
};
/// "tp", "cp", …, as recipes write them.
std::string_view name_of(RecipeTrait trait);
/// How a condition writes the recipe's value of this part.
std::string value_of(const Recipe& recipe, RecipeTrait trait);

/// "tp=4,8": the recipe's value is one of these, or none of them.
struct RecipeCondition {
  RecipeTrait trait = RecipeTrait::Tensor;
  std::vector<std::string> values;
  bool excludes = false;
  [[nodiscard]] bool holds(const Recipe& recipe) const;
  [[nodiscard]] std::string str() const;  ///< "--only tp=4,8" or "--not tp=4,8"
  bool operator==(const RecipeCondition&) const = default;
};
/// Reads "tp=4,8". InputError that names the option, the part and what is allowed.
RecipeCondition parse_recipe_condition(std::string_view text, bool excludes);

/// Rules and conditions that all hold. Where a condition names a kind of overlap, both of its values are
/// tried, whatever the rules switch on.
class RecipeFilter {
 public:
  RecipeFilter() = default;
  explicit RecipeFilter(std::vector<RecipeCondition> conditions, RecipeRules rules = {})
      : conditions_(std::move(conditions)), rules_(std::move(rules)) {}

  [[nodiscard]] std::span<const RecipeCondition> conditions() const { return conditions_; }
  [[nodiscard]] const RecipeRules& rules() const { return rules_; }
  /// Whether a condition is on this part.
  [[nodiscard]] bool concerns(RecipeTrait trait) const;
  /// Whether the conditions on these parts hold.
  [[nodiscard]] bool allows(const Recipe& recipe, std::span<const RecipeTrait> traits) const;
  /// The numbers that conditions ask for; empty where none does.
  [[nodiscard]] std::vector<std::int64_t> asked(RecipeTrait trait) const;
  [[nodiscard]] RecipeFilter without(std::size_t condition) const;
  [[nodiscard]] RecipeFilter without_conditions() const { return RecipeFilter({}, rules_); }

 private:
  std::vector<RecipeCondition> conditions_;
  RecipeRules rules_;
};

}  // namespace pipesim
