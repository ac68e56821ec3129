#include "tools/cli/planning/search_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/problem_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/interop/framework/open_run.h"

namespace pipesim {
namespace {

// Requires that the state fits with one of the shardings that recipes may have.
void require_room_for_recipes(const OperatorGraph& graph, const Topology& topology, PlanOptions options,
                              const RecipeFilter& filter) {
  for (const bool pipeline : {false, true}) {
    for (const StateSharding& sharding : filter.rules().shardings_of(pipeline)) {
      options.state_sharding = sharding;
      if (!missing_room(graph, topology, options)) return;
    }
  }
  require_room(graph, topology, options);
}

// Searches over splits find plans that no framework runs, so auto is for pipesim itself.
const Algorithm& algorithm_for(const Framework* framework, const Arguments& a) {
  const Algorithm& asked = algorithm_of(a);
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
void choose_recipes(const Arguments& a, SearchRun& run) {
  const std::int64_t samples = samples_per_iteration(run.graph, run.options);
  std::optional<FrameworkPlan> question;
  if (run.framework != nullptr)
    question = framework_question(*run.framework, framework_version_of(a), run.model, samples, run.options,
                                  run.topology);
  RecipeFilter& recipes = run.settings.recipes;
  recipes = recipe_filter_of(run.framework, question, run.model, planner_conditions_of(a), run.runtime);
  run.settings.recipes_are_asked = a.given("only") || a.given("not");
  if (!run.runtime_is_asked) run.runtime = with_overlap_of(std::move(run.runtime), recipes);
  require_room_for_recipes(run.graph, run.topology, run.options, recipes);
}

// Returns the recipe to begin with. A search over splits has no stages, so neither has its recipe.
std::optional<Recipe> start_of(const Arguments& a, const Algorithm& algorithm) {
  if (!a.has("recipe")) return std::nullopt;
  if (!algorithm.begins_anywhere)
    throw UsageError(fmt::format("search: --recipe is a start of mcmc and auto, not of {}", algorithm.name));
  Recipe recipe = recipe_of(a);
  if (recipe.pipeline > 1 && !algorithm.makes_stages)
    throw UsageError(fmt::format("search: --recipe with pp{} needs --algorithm auto", recipe.pipeline));
  return recipe;
}

}  // namespace

bool SearchRun::takes(std::string_view setting) const {
  return std::ranges::find(algorithm.settings, setting) != algorithm.settings.end();
}

int SearchRun::threads() const {
  return algorithm.begins_anywhere ? settings.chains.threads : settings.threads;
}

SearchRun search_run_of(const Arguments& a) {
  if (a.given("set") && !a.has("model")) throw UsageError("search: --set needs --model");
  for (const char* file : {"output", "checkpoint", "search-log"}) {
    if (a.has(file)) require_writable(a.text(file));
  }
  const Framework* framework = framework_of(a);
  const Algorithm& algorithm = algorithm_for(framework, a);
  std::optional<Recipe> recipe = start_of(a, algorithm);
  const bool of_splits = asks_for_splits(a);
  if (const Runtime runtime = runtime_of(a); of_splits && algorithm.makes_stages && runtime != Runtime())
    throw UsageError(
        fmt::format("search: --runtime {} with --algorithm {}, allowed: pipesim, other algorithms",
                    runtime.name, algorithm.name));
  SearchRun run{problem_of(a, algorithm, recipe), algorithm};
  if (of_splits && !a.given("candidates")) require_room(run.graph, run.topology, run.options);
  run.settings = planner_settings_of(a);
  run.of_splits = of_splits;
  run.output = text_or_none(a, "output");
  run.log = text_or_none(a, "search-log");
  run.json = a.given("json");
  run.framework = framework;
  run.by_recipes = ranks_recipes_of(algorithm, run.graph);
  run.runtime_is_asked = a.given("runtime");
  run.base_runtime = run.runtime;
  run.model_note = model_note_of(a);
  if (a.has("model")) run.model_left_out = left_out_of_config(with_settings(a.text("model"), a.texts("set")));
  if (run.by_recipes) choose_recipes(a, run);
  run.settings.chains.recipe = std::move(recipe);
  return run;
}

Runtime runtime_of_plan(const SearchRun& run, const Recipe* recipe) {
  return run.runtime_is_asked || recipe == nullptr ? run.runtime : with_policies(run.base_runtime, *recipe);
}

}  // namespace pipesim
