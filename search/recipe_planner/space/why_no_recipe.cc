#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "search/recipe_planner/space/recipe_space.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// Numbers by size, then words.
struct ValueOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    const auto rank = [](const std::string& s) {
      const bool number = s.find_first_not_of("0123456789") == std::string::npos;
      return std::tuple(!number, number ? s.size() : 0, s);
    };
    return rank(a) < rank(b);
  }
};

std::string quoted_values(const RecipeSpace& space, RecipeTrait trait) {
  std::set<std::string, ValueOrder> values;
  space.visit([&](const Recipe& recipe) { values.insert(value_of(recipe, trait)); });
  const std::vector<std::string> list(values.begin(), values.end());
  return list_names(list);
}

// The nearest number of samples that some recipe divides.
std::int64_t nearest_batch(const RecipeModel& model, const Topology& topology, std::int64_t samples,
                           const RecipeFilter& filter) {
  constexpr std::int64_t kFarthest = 4096;
  for (std::int64_t away = 1; away <= kFarthest; ++away) {
    for (const std::int64_t other : {samples - away, samples + away}) {
      if (other > 0 && RecipeSpace(model, topology, other, filter).size() > 0) return other;
    }
  }
  return 0;
}

}  // namespace

std::string why_no_recipe(const RecipeModel& model, const Topology& topology, std::int64_t samples,
                          const RecipeFilter& filter) {
  const std::string batch = counted(samples, "sample");
  const auto conditions = filter.conditions();
  if (!conditions.empty() && RecipeSpace(model, topology, samples, filter.without_conditions()).size() > 0) {
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      const RecipeSpace others(model, topology, samples, filter.without(i));
      if (others.size() == 0) continue;
      return fmt::format("{} leaves no recipe of {} on {}; with {}, allowed for {}: {}", conditions[i].str(),
                         batch, counted(static_cast<std::int64_t>(topology.num_devices()), "device"),
                         conditions.size() == 1 ? "no other condition" : "the other conditions",
                         name_of(conditions[i].trait), quoted_values(others, conditions[i].trait));
    }
    std::vector<std::string> all;
    for (const RecipeCondition& condition : conditions) all.push_back(condition.str());
    std::string nearest;
    RecipeSpace(model, topology, samples, filter.without_conditions()).visit([&](const Recipe& recipe) {
      if (nearest.empty()) nearest = recipe.str();
    });
    return fmt::format(
        "{} leave no recipe, nor do they without any one of them; without all of them there is "
        "one such as {}",
        fmt::join(all, " "), nearest);
  }
  const std::int64_t nearest = nearest_batch(model, topology, samples, filter);
  return fmt::format("no recipe on {} divides a batch of {}{}",
                     counted(static_cast<std::int64_t>(topology.num_devices()), "device"), batch,
                     nearest > 0 ? fmt::format("; the nearest that some recipe divides: {}", nearest) : "");
}

}  // namespace pipesim
