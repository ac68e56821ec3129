#include "tools/analysis/searching/plan_request.h"

#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {

PlanRequest request_of(const Problem& problem, const PlannerSettings& settings, const CostModel& costs) {
  const auto takes_batch = [&problem](std::int64_t batch) {
    try {
      (void)with_batch(problem.model, batch);
    } catch (const InputError&) {
      return false;
    }
    return true;
  };
  return {
      .problem = problem,
      .costs = costs,
      .with_batch = [&problem](std::int64_t batch) { return open_model(with_batch(problem.model, batch)); },
      .takes_batch = takes_batch,
      .settings = settings,
      .status = {},
      .with_shape =
          [&problem](const ModelShape& shape) {
            return open_model(with_shape(problem.model, problem.graph, shape));
          }};
}

const Recipe* recipe_of_plan(const Problem& problem, const PlannerAnswer& answer) {
  if (!answer.recipes || answer.recipes->best() == nullptr) return nullptr;
  const Recipe& best = answer.recipes->best()->recipe;
  const PlannedModel& planned = answer.plan;
  if (planned.graph.batch() != best.data * best.microbatch) return nullptr;
  const RecipeModel model(planned.graph);
  const RecipeStrategy made = expand_recipe(best, model, problem.topology);
  return made.strategy == planned.strategy && made.pipeline == planned.options.pipeline ? &best : nullptr;
}

Plan plan_of(const Problem& problem, const PlannerAnswer& answer, Runtime runtime) {
  const PlannedModel& planned = answer.plan;
  const std::string text = with_token_groups(
      with_zigzag(problem.model, problem.graph, planned.sequence.parts), planned.sequence.token_groups);
  Plan made{planned.batch ? with_batch(text, *planned.batch) : text,
            problem.topology_text,
            planned.graph.fingerprint(),
            problem.topology.fingerprint(),
            planned.options,
            answer.found_by,
            answer.seed,
            planned.strategy};
  if (const auto reason = illegal(planned.graph, made.strategy, made.options, problem.topology))
    throw InputError(*reason);
  made.runtime = std::move(runtime);
  return made;
}

bool has_bound(const CostModel& costs, const PlanOptions& options) {
  const bool one_by_one =
      !options.pipeline || schedule_kind(options.pipeline->schedule).weights == WeightChange::AfterIteration;
  return !costs.calibrated() && one_by_one;
}

}  // namespace pipesim
