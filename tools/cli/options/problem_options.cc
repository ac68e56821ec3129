#include "tools/cli/options/problem_options.h"

#include <algorithm>
#include <utility>

#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/shared_options.h"

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

}  // namespace

bool ranks_recipes_of(const Algorithm& algorithm, const OperatorGraph& graph) {
  return algorithm.ranks_recipes || (algorithm.asks_others && has_recipes(graph));
}

Problem problem_of(const Arguments& a, const Algorithm& algorithm, std::optional<Recipe>& start) {
  const bool makes_stages = algorithm.makes_stages;
  const std::string topology_text = required_text(a, "topology");
  Topology topology = topology_of(a);
  ModelRun model = start ? recipe_run_of(a, topology, Runtime(), *start) : model_run_of(a);
  OperatorGraph graph = algorithm.may_rank_recipes() ? open_divided(a, model) : open_model(model.model);
  PlanOptions options = plan_options_of(a, model);
  if (start) options.set_policies(start->policies());
  require_recompute(graph, options.recompute, makes_stages);
  require_imbalance(graph, options.imbalance);
  const bool by_recipes = ranks_recipes_of(algorithm, graph);
  if (by_recipes && !a.given("optimizer")) options.optimizer = Optimizer::Adam;
  const bool of_recipes = by_recipes || (start && !makes_stages);
  Runtime runtime = of_recipes ? runtime_of_recipes(a, topology) : runtime_of(a);
  if (start) runtime = with_policies(std::move(runtime), *start);
  return {std::move(model.model),
          std::move(graph),
          topology_text,
          std::move(topology),
          std::move(options),
          std::move(runtime),
          text_or_none(a, "calibration"),
          profile_note_of(a)};
}

}  // namespace pipesim
