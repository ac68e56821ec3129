#include "tools/analysis/searching/why_plan.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "search/baselines/baselines.h"
#include "search/incremental_evaluator.h"
#include "sim/base/deadline.h"
#include "tools/analysis/plans/report_in_time.h"

namespace pipesim {
namespace {

std::function<bool(std::int64_t)> stop_after(const TryBudget& budget) {
  return [budget, began = std::chrono::steady_clock::now()](std::int64_t tried) {
    if (is_late()) return true;
    if (budget.tries > 0 && tried >= budget.tries) return true;
    return budget.seconds > 0 &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() >= budget.seconds;
  };
}

SingleChanges one_more_change(Evaluator& evaluator, const CandidateSet& candidates,
                              const Scored<Strategy>& found, const PlanCosts& costs,
                              const TryBudget& budget) {
  IncrementalEvaluator incremental(evaluator);
  incremental.start(evaluator.contents().bind(found.plan));
  const Evaluation no_help{std::numeric_limits<Nanoseconds>::max(), Bytes(0)};
  // What does not help need not be known to the end.
  const TryChange evaluate = [&](OperatorId op, std::size_t index) {
    const BoundChange change{op, evaluator.contents().bind(op, candidates.config(op, index))};
    try {
      const auto evaluation = incremental.propose({&change, 1}, found.evaluation.time);
      if (!evaluation) return no_help;
      incremental.reject();
      return *evaluation;
    } catch (const OutOfTime&) {  // nothing is tried after it
      return no_help;
    }
  };
  constexpr std::size_t kMost = 5;
  return best_single_changes(candidates, found.plan, found.evaluation.time,
                             most_critical_first(costs.operators), evaluate, stop_after(budget), kMost);
}

void compare_with_baseline(WhyPlan& why, Evaluator& evaluator, const PlanCosts& costs) {
  const Baseline& baseline = *why.baseline;
  const BoundStrategy before = evaluator.contents().bind(baseline.scored->plan),
                      after = evaluator.contents().bind(why.found.plan);
  const PlanCosts costs_before = plan_costs(evaluator, before);
  const PlanOptions& options = evaluator.contents().options();
  why.difference = plan_difference({before, costs_before}, {after, costs});
  why.reason = plan_reason(evaluator.graph(), {baseline.name, before, costs_before, options},
                           {"plan", after, costs, options}, baseline.infeasible);
}

}  // namespace

TryBudget try_budget(const SearchBudget& budget, const SearchRecord& record) {
  constexpr double kShare = 0.1, kLeastSeconds = 0.2;
  constexpr std::int64_t kLeastTries = 200;
  if (budget.seconds > 0) return {std::max(kLeastSeconds, kShare * record.seconds), 0};
  const auto tries = static_cast<std::int64_t>(kShare * static_cast<double>(record.proposals));
  return {0, std::max(std::min(kLeastTries, budget.proposals), tries)};
}

WhyPlan why_plan(Evaluator& evaluator, const CandidateSet& candidates, const std::vector<Baseline>& baselines,
                 const Scored<Strategy>& found, const TryBudget& budget) {
  WhyPlan why{candidates, found, fastest_baseline(baselines), std::nullopt, std::nullopt, {}, ""};
  if (!why.baseline) why.baseline = nearest_baseline(baselines);
  const bool same = why.baseline && why.baseline->scored->plan == why.found.plan;
  if (same) why.reason = same_plan(*why.baseline);
  try {
    const BoundStrategy strategy = evaluator.contents().bind(found.plan);
    if (!may_report_in_full(evaluator, strategy)) {
      why.left_out = "too many tasks";
      return why;
    }
    const PlanCosts costs = plan_costs(evaluator, strategy);
    if (why.baseline && !same) compare_with_baseline(why, evaluator, costs);
    why.more = one_more_change(evaluator, candidates, why.found, costs, budget);
  } catch (const OutOfTime&) {
    why.left_out = "out of time";
  }
  return why;
}

}  // namespace pipesim
