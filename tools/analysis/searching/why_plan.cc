#include "tools/analysis/searching/why_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "search/baselines/baselines.h"
#include "search/incremental_evaluator.h"
#include "sim/base/deadline.h"
#include "tools/analysis/plans/report_in_time.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

std::function<bool(std::int64_t)> stop_after(const TryBudget& budget) {
  return [budget, began = Clock::now()](std::int64_t tried) {
    if (is_late()) return true;
    if (budget.tries > 0 && tried >= budget.tries) return true;
    return budget.seconds > 0 &&
           std::chrono::duration<double>(Clock::now() - began).count() >= budget.seconds;
  };
}

SingleChanges one_more_change(Evaluator& evaluator, const CandidateSet& candidates,
                              const ScoredStrategy& plan, const PlanCosts& costs, const TryBudget& budget) {
  IncrementalEvaluator incremental(evaluator);
  incremental.start(evaluator.contents().bind(plan.strategy));
  const Evaluation no_help{std::numeric_limits<Nanoseconds>::max(), Bytes(0)};
  // What does not help need not be known to the end.
  const TryChange evaluate = [&](OperatorId op, std::size_t index) {
    const BoundChange change{op, evaluator.contents().bind(op, candidates.config(op, index))};
    try {
      const auto evaluation = incremental.propose({&change, 1}, plan.evaluation.time);
      if (!evaluation) return no_help;
      incremental.reject();
      return *evaluation;
    } catch (const OutOfTime&) {  // nothing is tried after it
      return no_help;
    }
  };
  constexpr std::size_t kMost = 5;
  return best_single_changes(candidates, plan.strategy, plan.evaluation.time,
                             most_critical_first(costs.operators), evaluate, stop_after(budget), kMost);
}

void compare_with_baseline(WhyPlan& why, Evaluator& evaluator, const PlanCosts& costs) {
  const Baseline& baseline = *why.baseline;
  const BoundStrategy before = evaluator.contents().bind(baseline.scored->strategy),
                      after = evaluator.contents().bind(why.plan.strategy);
  const PlanCosts costs_before = plan_costs(evaluator, before);
  const PlanOptions& options = evaluator.contents().options();
  why.difference = plan_difference({before, costs_before}, {after, costs});
  why.reason = plan_reason(evaluator.graph(), {baseline.name, before, costs_before, options},
                           {"plan", after, costs, options}, baseline.infeasible);
}

std::string baseline_words(const Baseline& baseline) {
  if (baseline.infeasible.empty()) return baseline.name + ", the fastest baseline";
  return fmt::format("{}, the nearest baseline, which does not fit ({})", baseline.name, baseline.infeasible);
}

std::string difference_text(const WhyPlan& why) {
  if (!why.baseline) return "";
  if (!why.difference && !why.reason)
    return fmt::format("not compared with {}: {}\n", baseline_words(*why.baseline), why.left_out);
  if (!why.difference) return to_text(*why.reason) + "\n";
  constexpr std::size_t kMostChanges = 12;
  return fmt::format("against {}\n", baseline_words(*why.baseline)) +
         to_text(*why.difference, why.candidates.graph(), {why.baseline->name, "this plan"}, kMostChanges) +
         "\n";
}

struct ChangeInWords {
  const Operator& op;
  ParallelConfig to;
  std::string words;
  Nanoseconds saves;
};

ChangeInWords in_words(const SingleChange& change, const WhyPlan& why) {
  const Operator& op = why.candidates.graph().op(change.op);
  ParallelConfig to = why.candidates.config(change.op, change.index);
  std::string words = change_words(op, why.plan.strategy[change.op.index()], to);
  return {op, std::move(to), std::move(words), why.plan.evaluation.time - change.evaluation.time};
}

std::string more_text(const WhyPlan& why) {
  if (!why.left_out.empty()) return fmt::format("one more change was not tried: {}\n", why.left_out);
  const std::string tried = fmt::format("{} of {} tried", why.more.tried, why.more.all);
  if (why.more.best.empty()) return fmt::format("no single change helps ({})\n", tried);
  Table table({{"operator"}, {"saves", Align::Right}, {"", Align::Right}, {"split now -> then"}});
  for (const SingleChange& change : why.more.best) {
    const ChangeInWords c = in_words(change, why);
    table.add(
        {c.op.name, pretty(to_seconds(c.saves)), percent(share(c.saves, why.plan.evaluation.time)), c.words});
  }
  return fmt::format("one more change would help ({})\n", tried) + table.str(2);
}

Json more_json(const WhyPlan& why) {
  Json changes = Json::array();
  for (const SingleChange& change : why.more.best) {
    const ChangeInWords c = in_words(change, why);
    Json devices = Json::array();
    for (const DeviceId d : c.to.devices) devices.push_back(why.candidates.topology().device(d).name);
    changes.push_back({{"operator", c.op.name},
                       {"from", why.plan.strategy[change.op.index()].str(c.op)},
                       {"to", c.to.str(c.op)},
                       {"devices", devices},
                       {"iteration_time_s", seconds(change.evaluation.time)},
                       {"saves_s", seconds(c.saves)}});
  }
  if (!why.left_out.empty()) return {{"not_tried", why.left_out}};
  return {{"tried", why.more.tried}, {"of", why.more.all}, {"changes", changes}};
}

Json difference_json(const WhyPlan& why) {
  if (!why.baseline) return nullptr;
  const bool same = why.baseline->scored->strategy == why.plan.strategy;
  Json json{{"baseline", why.baseline->name}, {"same_plan", same}};
  if (!same && !why.difference) json["not_compared"] = why.left_out;
  if (!why.baseline->infeasible.empty()) json["infeasible"] = why.baseline->infeasible;
  if (why.difference) json.update(json_of(*why.difference, why.candidates.graph()));
  return json;
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
                 const ScoredStrategy& plan, const TryBudget& budget) {
  WhyPlan why{candidates, plan, fastest_baseline(baselines), std::nullopt, std::nullopt, {}, ""};
  if (!why.baseline) why.baseline = nearest_baseline(baselines);
  const bool same = why.baseline && why.baseline->scored->strategy == why.plan.strategy;
  if (same) why.reason = same_plan(*why.baseline);
  try {
    const BoundStrategy strategy = evaluator.contents().bind(plan.strategy);
    if (!may_report_in_full(evaluator, strategy)) {
      why.left_out = "too many tasks";
      return why;
    }
    const PlanCosts costs = plan_costs(evaluator, strategy);
    if (why.baseline && !same) compare_with_baseline(why, evaluator, costs);
    why.more = one_more_change(evaluator, candidates, why.plan, costs, budget);
  } catch (const OutOfTime&) {
    why.left_out = "out of time";
  }
  return why;
}

std::string to_text(const WhyPlan& why) { return difference_text(why) + more_text(why); }

nlohmann::ordered_json json_of(const WhyPlan& why) {
  return Json{{"reason", why.reason ? json_of(*why.reason) : Json()},
              {"against_baseline", difference_json(why)},
              {"one_more_change", more_json(why)}};
}

}  // namespace pipesim
