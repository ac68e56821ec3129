#include "tools/running/plan_comparison.h"

#include <algorithm>
#include <memory>

#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

constexpr std::int64_t most_turns = 10;

}  // namespace

PlanComparison run_comparison(const std::vector<NamedSubject>& plans, const RunSetting& setting,
                              std::ostream& err, ShownProgress& progress) {
  if (plans.empty()) throw InputError("there is no plan to run: none of the baselines fits into memory");
  DeviceWorlds worlds(plans.front().subject.topology, false);
  std::vector<std::unique_ptr<PlanRun>> runs;
  for (const NamedSubject& p : plans) {
    require_cores(p.subject.plan.strategy, setting, worlds);
    runs.push_back(std::make_unique<PlanRun>(p.subject, setting, worlds));
    if (runs.size() == 1) runs.back()->warn_of_share(err);
    runs.back()->begin();
  }
  const std::int64_t turns = std::min(most_turns, setting.steps);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const std::int64_t steps = setting.steps * (turn + 1) / turns - setting.steps * turn / turns;
    const std::int64_t warmup = turn == 0 ? setting.warmup : std::min<std::int64_t>(1, setting.warmup);
    for (const auto& run : runs) run->take_turn(warmup, steps, &progress);
  }
  PlanComparison result;
  std::vector<double> predicted, measured;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [name, subject] = plans[i];
    result.plans.push_back({name, runs[i]->finish(),
                            name == "single-device"
                                ? ""
                                : idle_devices(subject.plan.strategy, subject.graph, subject.topology)});
    const ExecutionReport& report = result.plans.back().report;
    predicted.push_back(seconds(report.predicted));
    measured.push_back(seconds(std::max<Nanoseconds>(1, report.measured.median)));
  }
  result.agreement = rank_agreement(predicted, measured);
  return result;
}

}  // namespace pipesim
