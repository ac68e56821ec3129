#include "search/planners/pipeline_trials.h"

#include <algorithm>
#include <tuple>

#include "search/baselines/baselines.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::vector<PipelineDemand> demands(std::int32_t devices, const std::vector<std::string>& schedules) {
  std::vector<PipelineDemand> demands{{1, 1, schedules.front()}};  // of one stage all schedules are alike
  for (std::int32_t groups = 2; groups <= devices; ++groups) {
    if (devices % groups != 0) continue;
    for (const std::string& schedule : schedules) {
      for (const std::int32_t chunks : {1, 2, 4}) {
        const bool suits =
            lies_in_v(schedule) ? chunks == 2 : schedule_kind(schedule).takes_chunks == (chunks > 1);
        if (suits) demands.push_back({groups * chunks, chunks, schedule});
      }
    }
  }
  return demands;
}

}  // namespace

std::vector<PipelineTrial> try_pipelines(
    const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
    const std::vector<std::string>& schedules, const std::function<void(const PipelineTrial&)>& tried,
    const std::function<void(const PipelineDemand&, const std::string&)>& refused,
    std::size_t* not_simulated) {
  const auto devices = static_cast<std::int32_t>(costs.topology().num_devices());
  std::vector<PipelineTrial> trials;
  PlanOptions unstaged = options;
  unstaged.pipeline.reset();
  Evaluator evaluator(graph, costs, unstaged);
  const auto try_one = [&](const PipelineDemand& demand) {
    if (static_cast<std::size_t>(demand.stages) > graph.operators().size()) return;
    PipelinedStrategy made = gpipe_strategy(graph, costs, demand);
    PlanOptions piped = options;
    piped.pipeline = std::move(made.pipeline);
    if (const auto reason = illegal(graph, made.strategy, piped, costs.topology())) {
      if (refused) refused(demand, *reason);
      return;
    }
    constexpr Bytes kMostRemembered(500'000'000);
    evaluator.forget(kMostRemembered);
    const Evaluation evaluation =
        evaluator.with(std::move(piped.pipeline), std::move(piped.recompute)).evaluate(made.strategy);
    trials.push_back({demand, evaluation, devices_used(made.strategy, costs.topology())});
    if (tried) tried(trials.back());
  };
  const std::vector<PipelineDemand> all = demands(devices, schedules);
  if (not_simulated) *not_simulated = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    try {
      try_one(all[i]);
    } catch (const OutOfTime&) {
      if (trials.empty()) throw;
      if (not_simulated) *not_simulated = all.size() - i;
      break;
    }
  }
  std::ranges::stable_sort(trials, {}, [](const PipelineTrial& t) {
    return std::tuple(t.evaluation.overflow, t.evaluation.time, t.demand.stages);
  });
  return trials;
}

}  // namespace pipesim
