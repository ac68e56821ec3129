#include "tools/frameworks/rank_run.h"

#include <algorithm>
#include <utility>
#include <vector>

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

}  // namespace

RatedRecipe rate_recipe(const OpenRun& run, Recipe recipe) {
  const BatchRequest asked{.batch = run.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun sized = run_of_recipe(without_zigzag(run.model), recipe.devices(), asked, recipe);
  const OperatorGraph graph = open_model(
      with_token_groups(sized.model, recipe.shape(run.filter.rules().local_dispatch).token_groups));
  Plan plan;
  plan.options = run.options;
  plan.options.microbatches = sized.microbatches;
  apply_recipe(recipe, RecipeModel(graph), run.topology, plan);
  const CostModel costs(run.topology, nullptr, with_policies(run.runtime, recipe));
  Evaluator evaluator(graph, costs, plan.options);
  std::vector<DeviceMemory> peaks;
  RatedRecipe rated{
      std::move(recipe), {}, evaluator.score(evaluator.contents().bind(plan.strategy), peaks), {}};
  for (const DeviceMemory& peak : peaks) rated.peak = std::max(rated.peak, peak.peak);
  return rated;
}

RecipeRanking rank_run(const OpenRun& run, const std::function<bool(const RankingProgress&)>& go_on) {
  const std::string text = without_zigzag(run.model);
  const OperatorGraph graph = open_model(text);
  const RecipeModel model(graph);
  const CostModel costs(run.topology, nullptr, run.runtime);
  PlanOptions options = run.options;
  options.pipeline.reset();
  options.recompute = {};
  options.state_sharding = {};
  const RankingRequest request{
      .model = model,
      .costs = costs,
      .options = std::move(options),
      .samples = run.samples,
      .filter = run.filter,
      .graph_of = [&](const ModelShape& shape) { return open_model(with_shape(text, graph, shape)); },
      .takes_batch = {},
      .threads = run.threads};
  return rank_recipes(request, go_on);
}

}  // namespace pipesim
