#include "tools/reports/report_in_time.h"

#include <fmt/format.h>

#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {
namespace {

// How long devices compute, by the passes of all microbatches and the updates after them.
void add_compute(const PlanContents& contents, const BoundStrategy& strategy, PlanReport& report) {
  const std::size_t devices = contents.costs().topology().num_devices();
  report.compute.assign(devices, 0);
  report.recompute.assign(devices, 0);
  const std::int32_t ways = contents.ways(), all = contents.options().microbatches;
  for (std::int32_t way = 0; way < ways; ++way) {
    const BoundStrategy& used = contents.strategy_of(way, strategy);
    const std::int64_t times = (all - way + ways - 1) / ways;
    for (std::size_t i = 0; i < used.size(); ++i) {
      const BoundOperator& b = *used[i];
      const auto add = [&](const PassWork& work, std::vector<Nanoseconds>& to) {
        for (std::size_t k = 0; work.present && k < work.durations.size(); ++k)
          to[b.config.devices[k % b.config.devices.size()].index()] += times * work.durations[k];
      };
      for (const PassWork* work : {&b.forward, &b.backward_input, &b.backward_weight})
        add(*work, report.compute);
      if (!contents.recomputation().again(OperatorId(i))) continue;
      add(b.forward, report.compute);
      add(b.forward, report.recompute);
    }
  }
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (contents.backward().owned_weights(OperatorId(i)).empty()) continue;
    const OwnedUpdates& updates = contents.update_work(OperatorId(i), strategy);
    for (std::size_t k = 0; k < updates.devices.size(); ++k)
      report.compute[updates.devices[k].index()] += updates.durations[k];
  }
}

Evaluation score_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                         const std::optional<Evaluation>& scored, PlanReport& report) {
  try {
    const Evaluation evaluation = evaluator.score(strategy, report.memory);
    // Weights that change while microbatches are under way are updated more than once.
    if (!evaluator.contents().versions().several()) add_compute(evaluator.contents(), strategy, report);
    return evaluation;
  } catch (const OutOfTime&) {
    if (!scored) throw;
    return *scored;
  }
}

PlanReport short_report(Evaluator& evaluator, const BoundStrategy& strategy,
                        const std::optional<Evaluation>& scored) {
  PlanReport report;
  report.in_full = false;
  report.borrowed_rates = borrowed_rates(evaluator.graph(), evaluator.topology());
  const Evaluation evaluation = score_in_time(evaluator, strategy, scored, report);
  report.iteration_time = report.makespan = evaluation.time;
  if (!evaluation.proven) report.spread = evaluation.spread;
  report.samples_per_second =
      static_cast<double>(samples_per_iteration(evaluator.graph(), evaluator.contents().options())) /
      to_seconds(evaluation.time).value;
  if (!report.memory.empty()) {
    report.infeasible = memory_shortage(report.memory, evaluator.topology());
  } else if (!evaluation.feasible()) {
    report.infeasible = fmt::format("devices lack {}, all together", pretty(evaluation.overflow));
  }
  return report;
}

}  // namespace

bool may_report_in_full(Evaluator& evaluator, const BoundStrategy& strategy) {
  constexpr std::int64_t kMostReported = 10'000'000;  // passes of operators; a task takes some 150 bytes
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  return static_cast<std::int64_t>(tasks) * evaluator.contents().options().microbatches <= kMostReported;
}

PlanReport report_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                          const std::optional<Evaluation>& scored) {
  constexpr double kShareOfFullReport = 0.6;  // of the time that is left
  if (may_report_in_full(evaluator, strategy)) {
    const Deadline forever, *all = deadline_kept();
    const Deadline share = all ? all->within(kShareOfFullReport * all->left()) : forever;
    const KeepTo keep(share);
    try {
      return report_plan(evaluator, strategy);
    } catch (const OutOfTime&) {  // then a short one
    }
  }
  return short_report(evaluator, strategy, scored);
}

}  // namespace pipesim
