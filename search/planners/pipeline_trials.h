#pragma once

#include <functional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/planners/gpipe.h"

namespace pipesim {

/// A pipeline that was simulated.
struct PipelineTrial {
  PipelineDemand demand;
  Evaluation evaluation;
  std::size_t devices_used = 0;
};

/// GPipe's pipelines of a model, judged by the simulator: every number of groups that divides the devices,
/// one group being data parallelism, under each of the schedules; those that take chunks with 2 and 4 stages
/// a group, too. Pipelines that a schedule or the model does not allow are left out. What fits into memory
/// comes first, the fastest first; of equal ones the one with fewer stages, then in the order of `schedules`.
/// `options`: of all of them; their pipeline is not looked at. `tried` is called after each, `refused` with
/// why one is left out. Where the thread's deadline (sim/base/deadline.h) passes, those that were simulated
/// are returned, and the number of others is in `not_simulated`; OutOfTime where none was.
std::vector<PipelineTrial> try_pipelines(
    const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
    const std::vector<std::string>& schedules, const std::function<void(const PipelineTrial&)>& tried,
    const std::function<void(const PipelineDemand&, const std::string&)>& refused = {},
    std::size_t* not_simulated = nullptr);

}  // namespace pipesim
