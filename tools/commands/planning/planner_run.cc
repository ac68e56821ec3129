#include "tools/commands/planning/planner_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/commands/options/framework_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/frameworks/open_run.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"

namespace pipesim {
namespace {

// Opens the model. Where the tensors of all samples together would be too large, and no option sets the
// microbatches, it gets fewer samples in a microbatch: recipes choose that number themselves.
OperatorGraph open_divided(const Arguments& a, ModelRun& model) {
  const bool is_free = a.has("batch") && !a.has("microbatch") && !a.given("microbatches") && !a.has("recipe");
  try {
    return open_model(model.model);
  } catch (const InputError&) {
    if (!is_free) throw;
    const std::int64_t batch = a.integer("batch", 1, INT64_MAX);
    for (std::int32_t microbatches = 2; microbatches <= std::min<std::int64_t>(batch, kMostMicrobatches);
         ++microbatches) {
      if (batch % microbatches != 0) continue;
      try {
        ModelRun divided{with_batch(model.model, batch / microbatches), microbatches};
        OperatorGraph graph = open_model(divided.model);
        model = std::move(divided);
        return graph;
      } catch (const InputError&) {  // still too large, or it is something else
      }
    }
    throw;
  }
}

// Requires that the state fits with one of the shardings that recipes may have.
void require_room_for_recipes(const OperatorGraph& graph, const Topology& topology, PlanOptions options,
                              const RecipeFilter& filter) {
  for (const StateSharding& sharding : filter.rules().shardings) {
    options.state_sharding = sharding;
    if (!missing_room(graph, topology, options)) return;
  }
  require_room(graph, topology, options);
}

// Searches over splits find plans that no framework runs, so auto is for pipesim itself.
const Algorithm& planner_for(const Framework* framework, const Arguments& a) {
  const Algorithm& asked = *planner_of(a);
  if (framework == nullptr || !asked.asks_others) return asked;
  for (const char* option :
       {"recipe", "proposals", "seed", "chains", "checkpoint", "checkpoint-every", "resume"}) {
    if (a.given(option))
      throw UsageError(
          fmt::format("search: --for and --{} exclude each other: only recipes are ranked", option));
  }
  return recipe_algorithm();
}

}  // namespace

PlannerRun planner_run_of(const Arguments& a) {
  if (a.given("set") && !a.has("model")) throw UsageError("search: --set needs --model");
  for (const char* file : {"output", "checkpoint", "search-log"}) {
    if (a.has(file)) require_writable(a.text(file));
  }
  const Framework* framework = framework_of(a);
  const Algorithm& planner = planner_for(framework, a);
  if (a.has("recipe") && !planner.asks_others)
    throw UsageError(fmt::format("search: --recipe is a start of mcmc and auto, not of {}", planner.name));
  Topology topology = topology_of(a);
  std::optional<Recipe> recipe;
  if (a.has("recipe")) recipe = recipe_of(a);
  ModelRun model = recipe ? recipe_run_of(a, topology, Runtime(), *recipe) : model_run_of(a);
  OperatorGraph graph = planner.may_rank_recipes() ? open_divided(a, model) : open_model(model.model);
  require_recompute(graph, recompute_of(a), true);
  PlanOptions options = plan_options_of(a, model);
  require_imbalance(graph, options.imbalance);
  const bool by_recipes = planner.ranks_recipes || (planner.asks_others && has_recipes(graph));
  if (by_recipes && !a.given("optimizer")) options.optimizer = Optimizer::Adam;
  Runtime runtime = by_recipes ? runtime_of_recipes(a, topology) : runtime_of(a);
  if (recipe) runtime = with_policies(std::move(runtime), *recipe);
  PlannerSettings settings = planner_settings_of(a);
  Runtime base_runtime = runtime;
  if (by_recipes) {
    const std::int64_t samples = samples_per_iteration(graph, options);
    std::optional<FrameworkPlan> question;
    if (framework != nullptr)
      question =
          framework_question(*framework, framework_version_of(a), model.model, samples, options, topology);
    settings.recipes = recipe_filter_of(framework, question, model.model, planner_conditions_of(a), runtime);
    settings.recipes_are_asked = a.given("only") || a.given("not");
    if (!a.given("runtime")) runtime = with_overlap_of(std::move(runtime), settings.recipes);
    require_room_for_recipes(graph, topology, options, settings.recipes);
  }
  if (recipe) options.recompute.kind = recipe->recompute;
  if (recipe) options.gathered_inputs = recipe->gathered_inputs();
  if (recipe) options.gradient_reduction = recipe->gradient_reduction();
  if (recipe) options.state_sharding = recipe->state_sharding;
  settings.chains.recipe = std::move(recipe);
  return {planner,
          std::move(model),
          std::move(graph),
          a.text("topology"),
          profile_note_of(a),
          std::move(topology),
          std::move(options),
          std::move(settings),
          search_budget_of(a).seconds,
          text_or_none(a, "calibration"),
          text_or_none(a, "output"),
          text_or_none(a, "search-log"),
          std::move(runtime),
          a.given("json"),
          framework,
          by_recipes,
          a.given("runtime"),
          std::move(base_runtime)};
}

const Recipe* recipe_of_plan(const PlannerRun& run, const PlannedPipeline& planned) {
  if (!planned.recipes || planned.recipes->best() == nullptr) return nullptr;
  const Recipe& best = planned.recipes->best()->recipe;
  if (planned.graph.batch() != best.data * best.microbatch) return nullptr;
  const RecipeModel model(planned.graph);
  const RecipeStrategy made = expand_recipe(best, model, run.topology);
  return made.strategy == planned.strategy && made.pipeline == planned.options.pipeline ? &best : nullptr;
}

Runtime runtime_of_plan(const PlannerRun& run, const Recipe* recipe) {
  return run.runtime_is_asked || recipe == nullptr ? run.runtime : with_policies(run.base_runtime, *recipe);
}

PlannedPipeline propose_in_time(const PlanRequest& request, const PlannerRun& run, const Deadline& until) {
  const KeepTo keep(until);
  const double had = until.left();
  try {
    return run.planner.propose(request);
  } catch (const OutOfTime&) {
    throw NoPlanFound(
        fmt::format("{}: no plan was found in the {:.1f} s that it had of the {} s of --seconds; allow more",
                    run.planner.name, had, run.seconds));
  }
}

PlanRequest request_of(const PlannerRun& run, const CostModel& costs) {
  PlanRequest request{run.graph, costs, run.options, {}, {}, run.settings, {}};
  request.with_batch = [&](std::int64_t batch) { return open_model(with_batch(run.model.model, batch)); };
  request.with_shape = [&](const ModelShape& shape) {
    return open_model(with_shape(run.model.model, run.graph, shape));
  };
  request.takes_batch = [&](std::int64_t batch) {
    try {
      (void)with_batch(run.model.model, batch);
    } catch (const InputError&) {
      return false;
    }
    return true;
  };
  return request;
}

}  // namespace pipesim
