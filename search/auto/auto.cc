#include "search/auto/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "search/auto/contest.h"
#include "search/auto/planner_turns.h"
#include "search/auto/search_turns.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Says by how much the best plan is better than the best recipe; "" where no recipe was found.
std::string gain_over_recipes(const Contest& contest, const Scored<JointPlan>& best) {
  const auto [overflow, time] = contest.found().best_of("recipes");
  const AutoEntry* recipes = contest.entry("recipes", 0);
  if (recipes == nullptr || !recipes->contribution.evaluation || overflow.value > 0) return "";
  const double gain =
      static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, best.evaluation.time)) - 1;
  constexpr double kPercent = 100, kTold = 5e-4;
  const std::string found = gain < kTold
                                ? "no search over other plans found a faster one"
                                : fmt::format("{:.1f} % faster than the best recipe", kPercent * gain);
  return fmt::format("{}; recipes: {}", found, recipes->contribution.note);
}

// Returns the plan as it is executed.
PlannedModel planned_of(Contest& contest, const JointPlan& plan) {
  JointEvaluator& evaluator = contest.evaluator();
  PlannedModel planned(*evaluator.graph(plan.microbatches, plan.sequence), evaluator.options(plan),
                       evaluator.strategy(plan));
  planned.sequence = plan.sequence;
  if (plan.microbatches != contest.request().microbatches()) planned.batch = planned.graph.batch();
  planned.meshes = plan.meshes;
  for (std::int32_t s = 0; s < plan.pipeline.num_stages(); ++s)
    planned.devices.push_back(static_cast<std::int64_t>(
        plan.meshes[mesh_of_stage(plan.pipeline, s, plan.meshes.size())].devices.size()));
  return planned;
}

// What fits first, then the fastest, then who came first.
PlannerAnswer best_plan(Contest& contest) {
  const Scored<JointPlan>* found = contest.found().best();
  if (found == nullptr) throw InputError("auto: no algorithm found a plan");
  PlannerAnswer answer{planned_of(contest, found->plan)};
  answer.contributions = contest.found().all();
  answer.baselines = contest.baselines();
  answer.seed = contest.state().seed;
  answer.scored = found->evaluation;
  answer.note = gain_over_recipes(contest, *found);
  return answer;
}

}  // namespace

PlannerAnswer search_auto(const PlanRequest& request) {
  Contest contest(request);
  PlannerTurns planners(contest);
  const KeepTo keep(contest.until());
  planners.ask_baselines();
  contest.resume();
  planners.ask_recipes();
  SearchTurns searches(contest, planners);
  searches.begin_splits();
  planners.ask_simple_plans();
  planners.ask_planners();
  planners.ask_intra();
  searches.search(request.settings.budget);
  contest.finish();
  PlannerAnswer answer = best_plan(contest);
  answer.recipes = planners.take_ranking();
  return answer;
}

}  // namespace pipesim
