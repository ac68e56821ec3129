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

/// GPipe's pipelines of a model, judged by the simulator. Tries every number of groups that divides the
/// devices (one group is data parallelism) under each of the schedules; schedules that take chunks also with
/// 2 and 4 stages per group. Pipelines that a schedule or the model does not allow are left out. Those that
/// fit into memory come first, then the fastest; among equals the one with fewer stages, then in the order of
/// `schedules`. `options`: of all of them; their pipeline is ignored. `tried` is called after each, `refused`
/// with the reason for each that is left out. When the thread's deadline (sim/base/deadline.h) passes, the
/// simulated ones are returned, and `not_simulated` receives the number of others; OutOfTime when there are
/// none.
std::vector<PipelineTrial> try_pipelines(
    const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
    const std::vector<std::string>& schedules, const std::function<void(const PipelineTrial&)>& tried,
    const std::function<void(const PipelineDemand&, const std::string&)>& refused = {},
    std::size_t* not_simulated = nullptr);

}  // namespace pipesim
