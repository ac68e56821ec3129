#include "tools/analysis/whatif/plan_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "search/auto/auto.h"
#include "search/recipes/recipe_of_plan.h"

namespace pipesim {
namespace {

std::string kind_of_recipe(const Recipe& recipe) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, std::int64_t degree) {
    if (degree > 1) parts.push_back(fmt::format("{}{}", name, degree));
  };
  add("tp", recipe.tensor);
  add("cp", recipe.context);
  add("ep", recipe.expert);
  add("pp", recipe.pipeline);
  if (parts.empty()) parts.emplace_back(recipe.data > 1 ? "data-parallel" : "single device");
  if (const std::string sharding = recipe.state_sharding.str();
      recipe.data * recipe.context > 1 && sharding != "none")
    parts.push_back(sharding);
  return fmt::format("{}", fmt::join(parts, ","));
}

// Whether no operator is split but by its samples, each into as many parts as the others.
bool divides_samples_alone(const OperatorGraph& graph, const Strategy& strategy) {
  std::set<std::size_t> devices;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Operator& op = graph.operators()[i];
    for (std::size_t f = 0; f < strategy[i].degrees.size(); ++f) {
      if (strategy[i].degrees[f] > 1 && op.factors[f].kind != FactorKind::Sample) return false;
    }
    devices.insert(strategy[i].devices.size());
  }
  return devices.size() == 1;
}

}  // namespace

std::string kind_of_plan(const OperatorGraph& graph, const Strategy& strategy, const PlanOptions& options,
                         const Topology& topology) {
  if (has_recipes(graph)) {
    const RecipeModel model(graph);
    const RecognisedRecipe recognised = recipe_of(strategy, options, model, topology);
    // A plan of which most is otherwise is no such recipe.
    if (2 * recognised.differing.size() < strategy.size()) return kind_of_recipe(recognised.recipe);
  }
  std::set<DeviceId> all;
  for (const ParallelConfig& config : strategy) all.insert(config.devices.begin(), config.devices.end());
  if (all.size() == 1) return "single device";
  if (!options.pipeline || options.pipeline->num_stages() == 1)
    return divides_samples_alone(graph, strategy) ? "data-parallel" : "operator-parallel";
  std::map<std::int32_t, std::set<DeviceId>> stages;
  for (std::size_t i = 0; i < strategy.size(); ++i)
    stages[options.pipeline->stage_of[i]].insert(strategy[i].devices.begin(), strategy[i].devices.end());
  const bool straight =
      std::ranges::all_of(stages, [](const auto& stage) { return stage.second.size() == 1; });
  return straight ? "straight pipeline" : "hybrid pipeline";
}

}  // namespace pipesim
