#include <fmt/format.h>

#include <algorithm>

#include "search/planners/gpipe.h"
#include "search/planners/pipeline_trials.h"
#include "search/planners/planner.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

std::vector<std::int64_t> shares(const Topology& topology, const PipelineDemand& demand) {
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  return std::vector<std::int64_t>(static_cast<std::size_t>(demand.stages),
                                   devices / (demand.stages / demand.chunks));
}

// The fastest that fits, by simulation.
PipelineDemand best_demand(const PlanRequest& request, PlannerTrials& told) {
  std::size_t tried = 0;
  std::string refusal;  // of the least that is a pipeline, or of data parallelism
  const std::vector<PipelineTrial> trials = try_pipelines(
      request.graph(), request.costs, request.options(), request.settings.schedules,
      [&](const PipelineTrial& t) {
        ++tried;
        request.status(fmt::format("{} pipelines, {} stages", tried, t.demand.stages));
      },
      [&, refused = std::int32_t{0}](const PipelineDemand& demand, const std::string& reason) mutable {
        if (refused > 1) return;
        refused = demand.stages;
        refusal = fmt::format("with {}: {}", counted(demand.stages, "stage"), reason);
      },
      &told.not_simulated);
  if (trials.empty()) {
    throw InputError(
        fmt::format("gpipe: no number of stages that divides the {} suits; {}",
                    counted(static_cast<std::int64_t>(request.topology().num_devices()), "device"), refusal));
  }
  told.of = PlannerTrials::Of::Pipelines;
  for (const PipelineTrial& t : trials) {
    PlannerTrial& trial = told.tried.emplace_back();
    trial.schedule = t.demand.schedule;
    trial.evaluation = t.evaluation;
    trial.devices_used = t.devices_used;
    trial.stages = t.demand.stages;
    trial.chunks = t.demand.chunks;
  }
  return trials.front().demand;
}

}  // namespace

PlannerAnswer propose_gpipe(const PlanRequest& request) {
  const PlannerSettings& settings = request.settings;
  PlannerTrials trials;
  const PipelineDemand demand = settings.stages > 0
                                    ? PipelineDemand{settings.stages, settings.chunks, settings.schedule}
                                    : best_demand(request, trials);
  PlannerAnswer answer{PlannedModel(request, gpipe_strategy(request.graph(), request.costs, demand))};
  answer.trials = std::move(trials);
  answer.plan.devices = shares(request.topology(), demand);
  return answer;
}

}  // namespace pipesim
