#include "search/auto/algorithms.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/auto/auto.h"
#include "search/baselines/baselines.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all{
      {.name = "mcmc",
       .summary = "Markov chains over the splits of operators",
       .propose = propose_mcmc,
       .splits_alone = true,
       .makes_stages = false,
       .begins_anywhere = true,
       .settings = {"seconds", "proposals", "seed", "threads", "chains", "moves", "search-log", "candidates"},
       .reports_progress = true,
       .keeps_checkpoints = true},
      {.name = "exhaustive",
       .summary = "small cases: proves the optimum; of pipelines, with --stages, --schedule, --layers or "
                  "--microbatches",
       .propose = propose_exhaustively,
       .splits_alone = true,
       .settings = {"stages", "schedule", "layers", "seconds", "proposals", "search-log", "candidates"},
       .usual_layers = 8,
       .most_layers = 64,
       .reports_progress = true}};
  all.insert(all.end(), stage_planners().begin(), stage_planners().end());
  const std::vector<Algorithm> others{
      {.name = "recipes",
       .summary = "pipelines: the best of all recipes, with a proof; it chooses microbatches, recomputation "
                  "and state sharding too",
       .propose = [](const PlanRequest& request) { return propose_recipes(request); },
       .settings = {"for", "only", "not", "within", "seconds", "threads", "search-log"},
       .ranks_recipes = true,
       .reports_progress = true},
      {.name = "intra",
       .summary =
           "the splits of operators whose costs add up to least within memory, with a proof; no stages",
       .propose = propose_intra,
       .settings = {"mesh", "seconds", "threads"}},
      {.name = "auto",
       .summary = "pipelines: recipes for models with attention, and all of these; then a search that may "
                  "change anything of their plans",
       .propose = search_auto,
       .begins_anywhere = true,
       .settings = {"for", "only", "not", "within", "search-log", "seconds", "proposals", "seed", "threads",
                    "chains"},
       .asks_others = true,
       .reports_progress = true,
       .keeps_checkpoints = true}};
  all.insert(all.end(), others.begin(), others.end());
  for (const std::string_view name : baseline_names())
    all.push_back({.name = name,
                   .summary = "that baseline",
                   .propose = [name](const PlanRequest& request) { return propose_baseline(request, name); },
                   .splits_alone = true,
                   .makes_stages = false,
                   .settings = {"proposals", "candidates"},
                   .reports_progress = true});
  return all;
}

}  // namespace

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> all = all_algorithms();
  return all;
}

const Algorithm& algorithm_named(std::string_view name) {
  const std::span<const Algorithm> all = algorithms();
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  if (found == all.end()) throw InternalError(fmt::format("no algorithm is called \"{}\"", name));
  return *found;
}

std::span<const Algorithm* const> planners() {
  static const std::vector<const Algorithm*> all = [] {
    std::vector<const Algorithm*> found;
    for (const Algorithm& a : algorithms()) {
      if (!a.splits_alone) found.push_back(&a);
    }
    return found;
  }();
  return all;
}

const Algorithm& recipe_algorithm() {
  return *std::ranges::find_if(algorithms(), [](const Algorithm& a) { return a.ranks_recipes; });
}

const Algorithm& default_algorithm() {
  return *std::ranges::find_if(algorithms(), [](const Algorithm& a) { return a.asks_others; });
}

}  // namespace pipesim
