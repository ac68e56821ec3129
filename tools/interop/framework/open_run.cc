#include "tools/interop/framework/open_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "search/recipe_planner/refine_recipe.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"

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

// Whether conditions on the part leave it as it usually is, on or off.
bool is_on(const std::vector<RecipeCondition>& conditions, RecipeTrait trait, bool usual, const Recipe& on,
           const Recipe& off) {
  bool allows_on = true, allows_off = true;
  for (const RecipeCondition& condition : conditions) {
    if (condition.trait != trait) continue;
    allows_on = allows_on && condition.holds(on);
    allows_off = allows_off && condition.holds(off);
  }
  return allows_on && (usual || !allows_off);
}

bool overlaps_products(const std::vector<RecipeCondition>& conditions, bool usual) {
  Recipe on, off;
  on.tensor_overlap = true;
  return is_on(conditions, RecipeTrait::TensorOverlap, usual, on, off);
}

std::optional<GradientReduction> reduction_of(const std::vector<RecipeCondition>& conditions,
                                              std::optional<GradientReduction> usual) {
  Recipe on, off;
  on.reduction = GradientReduction::Overlapped, off.reduction = GradientReduction::AfterSteps;
  const auto concerns = [](const RecipeCondition& c) { return c.trait == RecipeTrait::Reduction; };
  if (std::ranges::none_of(conditions, concerns)) return usual;
  return is_on(conditions, RecipeTrait::Reduction, usual == on.reduction, on, off) ? on.reduction
                                                                                   : off.reduction;
}

}  // namespace

FrameworkPlan framework_question(const Framework& framework, const FrameworkVersion& version,
                                 const std::string& model, std::int64_t samples, const PlanOptions& options,
                                 const Topology& topology) {
  FrameworkPlan question;
  question.version = version;
  question.model = model;
  question.sizes = decoder_sizes(model);
  question.samples = samples;
  question.optimizer = options.optimizer;
  question.gradient_type = options.gradient_type;
  question.hosts = hosts_of(topology);
  if (const Refusals refusals = framework.model_refusals(question); !refusals.empty())
    throw InputError(fmt::format("{} can't run this: {}", framework.title, text_of({}, refusals)));
  return question;
}

bool dispatches_locally(const Framework* framework, const std::string& model, const Runtime& runtime) {
  return framework != nullptr || dispatches_locally(model, runtime);
}

RecipeFilter recipe_filter_of(const Framework* framework, const std::optional<FrameworkPlan>& question,
                              const std::string& model, std::vector<RecipeCondition> conditions,
                              const Runtime& runtime) {
  RecipeRules rules;
  if (framework != nullptr) {
    rules = rules_of(*framework, question.value());
  } else if (runtime.has_host()) {
    rules.shardings = RecipeRules::overlapped_shardings();
    rules.in_pipelines = RecipeRules::gathered_once(rules.shardings);
    rules.reduction = GradientReduction::Overlapped;
    rules.tensor_overlap = true;
  }
  rules.local_dispatch = dispatches_locally(framework, model, runtime);
  rules.messages = runtime.messages;
  rules.tensor_overlap = overlaps_products(conditions, rules.tensor_overlap);
  rules.reduction = reduction_of(conditions, rules.reduction);
  return RecipeFilter(std::move(conditions), std::move(rules));
}

OpenRun run_of_framework(const Framework& framework, const FrameworkVersion& version, OpenRun run,
                         std::vector<RecipeCondition> conditions) {
  run.model = model_run_by(framework, run.model, run.topology.parts().kinds).text;
  if (!run.runtime_is_asked) run.runtime = runtime_for_recipes(run.topology, framework.runtime);
  const FrameworkPlan question =
      framework_question(framework, version, run.model, run.samples, run.options, run.topology);
  run.filter = recipe_filter_of(&framework, question, run.model, std::move(conditions), run.runtime);
  return run;
}

RatedRecipe rate_recipe(const OpenRun& run, Recipe recipe) {
  const BatchRequest asked{.batch = run.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun sized = run_of_recipe(without_zigzag(run.model), recipe.devices(), asked, recipe);
  const OperatorGraph graph = open_model(
      with_token_groups(sized.model, recipe.shape(run.filter.rules().local_dispatch).sequence.token_groups));
  Plan plan;
  plan.options = run.options;
  plan.options.microbatches = sized.microbatches;
  apply_recipe(recipe, RecipeModel(graph), run.topology, plan);
  const CostModel costs(run.topology, nullptr,
                        run.runtime_is_asked ? run.runtime : with_policies(run.runtime, recipe));
  Evaluator evaluator(graph, costs, plan.options);
  const Evaluated found = evaluator.evaluate(plan.strategy, {.peaks = true});
  RatedRecipe rated{std::move(recipe), {}, *found.cost, {}, {}};
  rated.take_memory(found.peaks, run.topology);
  return rated;
}

RecipeRanking rank_run(const OpenRun& run, const std::function<bool(const RankingProgress&)>& go_on) {
  const std::string text = without_zigzag(run.model);
  const OperatorGraph graph = open_model(text);
  const RecipeModel model(graph);
  const CostModel costs(run.topology, nullptr,
                        run.runtime_is_asked ? run.runtime : with_overlap_of(run.runtime, run.filter));
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
  return run.refines ? rank_and_refine(request, go_on) : rank_recipes(request, go_on);
}

}  // namespace pipesim
