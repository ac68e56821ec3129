#include "tools/commands/planning/planner_run.h"

#include <fmt/format.h>

#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/commands/options/framework_options.h"
#include "tools/commands/options/problem_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/frameworks/open_run.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"

namespace pipesim {
namespace {

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

// Sets the recipes that are ranked, and the runtime that overlaps whatever any of them does.
void choose_recipes(const Arguments& a, PlannerRun& run) {
  const std::int64_t samples = samples_per_iteration(run.graph, run.options);
  std::optional<FrameworkPlan> question;
  if (run.framework != nullptr)
    question = framework_question(*run.framework, framework_version_of(a), run.model.model, samples,
                                  run.options, run.topology);
  RecipeFilter& recipes = run.settings.recipes;
  recipes = recipe_filter_of(run.framework, question, run.model.model, planner_conditions_of(a), run.runtime);
  run.settings.recipes_are_asked = a.given("only") || a.given("not");
  if (!run.runtime_is_asked) run.runtime = with_overlap_of(std::move(run.runtime), recipes);
  require_room_for_recipes(run.graph, run.topology, run.options, recipes);
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
  std::optional<Recipe> recipe;
  if (a.has("recipe")) recipe = recipe_of(a);
  PlannerRun run{problem_of(a, planner, recipe), planner};
  run.settings = planner_settings_of(a);
  run.seconds = search_budget_of(a).seconds;
  run.output = text_or_none(a, "output");
  run.log = text_or_none(a, "search-log");
  run.json = a.given("json");
  run.framework = framework;
  run.by_recipes = ranks_recipes_of(planner, run.graph);
  run.runtime_is_asked = a.given("runtime");
  run.base_runtime = run.runtime;
  if (run.by_recipes) choose_recipes(a, run);
  run.settings.chains.recipe = std::move(recipe);
  return run;
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
