#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "taskgraph/plan.h"

namespace pipesim {

/// What a planner of pipelines proposes.
struct PipelinedStrategy {
  Strategy strategy;
  Pipeline pipeline;
};

/// Devices that run a stage or, with chunks, several; distinct, at least one.
using StageGroup = std::vector<DeviceId>;

/// Data parallelism inside every stage: samples over the group's devices in order, or over as many as every
/// operator of the group's stages can be split on. `groups`: stage s runs on groups[s % groups.size()].
PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups);

}  // namespace pipesim
