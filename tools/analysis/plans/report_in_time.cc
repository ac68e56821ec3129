#include "tools/analysis/plans/report_in_time.h"

#include <fmt/format.h>

#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {
namespace {

// The time alone, where there is no more time.
PlanReport short_report(Evaluator& evaluator, const std::optional<Evaluation>& scored) {
  if (!scored) throw OutOfTime();
  PlanReport report;
  report.in_full = false;
  report.borrowed_rates = borrowed_rates(evaluator.graph(), evaluator.topology());
  report.iteration_time = report.makespan = scored->time;
  if (!scored->proven) report.spread = scored->spread;
  report.samples_per_second =
      static_cast<double>(samples_per_iteration(evaluator.graph(), evaluator.contents().options())) /
      to_seconds(scored->time).value;
  if (!scored->feasible())
    report.infeasible = fmt::format("devices lack {}, all together", pretty(scored->overflow));
  return report;
}

}  // namespace

bool may_report_in_full(Evaluator& evaluator, const BoundStrategy& strategy) {
  // Passes of operators. Transfers are several times as many tasks, and a task takes some 150 bytes.
  constexpr std::int64_t kMostReported = 1'000'000;
  std::size_t tasks = 0;
  for (const BoundOperator* b : strategy) {
    for (const PassWork* work : {&b->forward, &b->backward_input, &b->backward_weight})
      tasks += num_tasks(*b, *work);
  }
  return static_cast<std::int64_t>(tasks) * evaluator.contents().options().microbatches <= kMostReported;
}

PlanReport report_in_time(Evaluator& evaluator, const BoundStrategy& strategy,
                          const std::optional<Evaluation>& scored, const FlopsCounting& counting) {
  try {
    return report_plan(evaluator, strategy, counting);
  } catch (const OutOfTime&) {
    return short_report(evaluator, scored);
  }
}

}  // namespace pipesim
