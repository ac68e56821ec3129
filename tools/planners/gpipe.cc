#include <fmt/format.h>

#include <algorithm>

#include "search/planners/gpipe.h"
#include "search/planners/pipeline_trials.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/cli/status_line.h"
#include "tools/cli/table.h"
#include "tools/planners/planner.h"

namespace pipesim {
namespace {

std::vector<std::int64_t> shares(const Topology& topology, const PipelineDemand& demand) {
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  return std::vector<std::int64_t>(static_cast<std::size_t>(demand.stages),
                                   devices / (demand.stages / demand.chunks));
}

std::string trials_text(const std::vector<PipelineTrial>& trials, std::size_t devices) {
  constexpr std::size_t kShown = 8;
  Table table(
      {{"stages", Align::Right}, {"groups", Align::Right}, {"schedule"}, {"iteration", Align::Right}, {""}});
  for (std::size_t i = 0; i < std::min(kShown, trials.size()); ++i) {
    const PipelineTrial& t = trials[i];
    table.add({fmt::format("{}", t.demand.stages), fmt::format("{}", t.demand.stages / t.demand.chunks),
               t.demand.stages > 1 ? t.demand.schedule : "data parallelism",
               pretty(to_seconds(t.evaluation.time)),
               trial_remarks(t.evaluation.feasible(), t.devices_used, devices)});
  }
  return simulated_text(table, std::min(kShown, trials.size()), trials.size());
}

// The fastest that fits, by simulation.
PipelineDemand best_demand(const PlannerCall& call, std::string& text) {
  const std::vector<std::string> schedules = schedules_to_try(call.arguments);
  StatusLine status(call.err);
  std::size_t tried = 0;
  std::string refusal;  // of the least that is a pipeline, or of data parallelism
  std::size_t not_simulated = 0;
  const std::vector<PipelineTrial> trials = try_pipelines(
      call.graph, call.costs, plan_options_of(call.arguments, call.run), schedules,
      [&](const PipelineTrial& t) {
        ++tried;
        if (status.due()) status.show(fmt::format("{} pipelines, {} stages", tried, t.demand.stages));
      },
      [&, refused = std::int32_t{0}](const PipelineDemand& demand, const std::string& reason) mutable {
        if (refused > 1) return;
        refused = demand.stages;
        refusal = fmt::format("with {}: {}", counted(demand.stages, "stage"), reason);
      },
      &not_simulated);
  if (trials.empty()) {
    throw InputError(fmt::format("gpipe: no number of stages that divides the {} suits; {}",
                                 counted(static_cast<std::int64_t>(call.topology().num_devices()), "device"),
                                 refusal));
  }
  text = trials_text(trials, call.topology().num_devices());
  if (not_simulated > 0) text += fmt::format("  {} more were not simulated: out of time\n", not_simulated);
  return trials.front().demand;
}

PlannedPipeline propose_gpipe(const PlannerCall& call) {
  const Arguments& a = call.arguments;
  if (!a.has("stages") && a.given("chunks")) throw UsageError("search: --chunks needs --stages");
  std::string trials;
  const PipelineDemand demand = a.has("stages") ? pipeline_demand_of(a) : best_demand(call, trials);
  PlannedPipeline planned(call, gpipe_strategy(call.graph, call.costs, demand));
  planned.trials = std::move(trials);
  planned.devices = shares(call.topology(), demand);
  return planned;
}

}  // namespace

Planner gpipe_planner() {
  return {"gpipe", "stages of about equal compute time", {"stages", "chunks", "schedule"}, {}, propose_gpipe};
}

}  // namespace pipesim
