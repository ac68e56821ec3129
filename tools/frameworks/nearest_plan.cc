#include "tools/frameworks/nearest_plan.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"

namespace pipesim {
namespace {

// The order of positions follows from the recipe.
std::string without_zigzag(std::string model) {
  const std::size_t begin = model.find("zigzag=");
  if (begin == std::string::npos) return model;
  const std::size_t end = model.find(',', begin);
  if (end == std::string::npos) return model.erase(begin - 1);  // with what stands before it
  return model.erase(begin, end + 1 - begin);
}

Evaluation evaluate_recipe(const FrameworkPlan& plan, const Topology& topology, const PlanOptions& options) {
  Recipe recipe = plan.recipe;
  const BatchRequest asked{.batch = plan.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun run = run_of_recipe(without_zigzag(plan.model), recipe.devices(), asked, recipe);
  const OperatorGraph graph = open_model(run.model);
  Plan made;
  made.options = options;
  made.options.pipeline.reset();
  made.options.optimizer = plan.optimizer;
  made.options.gradient_type = plan.gradient_type;
  made.options.microbatches = run.microbatches;
  apply_recipe(recipe, RecipeModel(graph), topology, made);
  const CostModel costs(topology);
  return Evaluator(graph, costs, made.options).score(made.strategy);
}

// Recipes that may need less memory, the fewest changes first.
std::vector<Recipe> leaner_recipes(const Recipe& recipe) {
  std::vector<std::pair<int, Recipe>> found;
  const std::int64_t copies = recipe.data * recipe.context;
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    if (recipe.data % stages != 0) continue;
    for (const auto kind : {StateSharding::Kind::None, StateSharding::Kind::Optimizer,
                            StateSharding::Kind::Gradients, StateSharding::Kind::Weights}) {
      if (kind < recipe.state_sharding.kind || (kind > recipe.state_sharding.kind && copies == 1)) continue;
      for (const auto recompute : {recipe.recompute, Recompute::Kind::Full}) {
        for (const std::int64_t microbatch : {recipe.microbatch, std::int64_t{1}}) {
          Recipe r = recipe;
          r.pipeline *= stages;
          r.data /= stages;
          if (kind != r.state_sharding.kind) r.state_sharding = {.kind = kind};
          r.recompute = recompute;
          r.microbatch = microbatch;
          const int changes = (stages > 1 ? 1 : 0) + (kind != recipe.state_sharding.kind ? 1 : 0) +
                              (recompute != recipe.recompute ? 1 : 0) +
                              (microbatch != recipe.microbatch ? 1 : 0);
          const bool known = std::ranges::any_of(found, [&](const auto& f) { return f.second == r; });
          if (changes > 0 && !known) found.emplace_back(changes, r);
        }
      }
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& f) { return f.first; });
  std::vector<Recipe> recipes;
  for (auto& [changes, r] : found) recipes.push_back(std::move(r));
  return recipes;
}

}  // namespace

std::optional<NearestPlan> nearest_plan(const Framework& framework, const ReadPlan& read,
                                        const RecipeModel& model, const Topology& topology,
                                        const PlanOptions& options) {
  const auto expressible = nearest_expressible(framework, read.plan, read.refusals, model);
  if (!expressible) return std::nullopt;
  NearestPlan nearest{*expressible, evaluate_recipe(*expressible, topology, options)};
  if (nearest.evaluation.feasible()) return nearest;
  for (const Recipe& recipe : leaner_recipes(expressible->recipe)) {
    if (model.illegal(recipe)) continue;
    FrameworkPlan plan = *expressible;
    plan.recipe = recipe;
    plan.layers = divide_layers(recipe, plan.sizes.layers).layers;
    if (plan.samples % (recipe.data * recipe.microbatch) != 0 || !framework.refusals(plan).empty()) continue;
    try {
      const Evaluation evaluation = evaluate_recipe(plan, topology, options);
      if (evaluation.feasible()) return NearestPlan{plan, evaluation};
    } catch (const InputError&) {  // a rule that looks at operators or microbatches refuses it
    }
  }
  return nearest;
}

}  // namespace pipesim
