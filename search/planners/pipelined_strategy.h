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

/// Devices that run a stage or, with chunks, several.
struct StageGroup {
  std::int64_t first = 0;    ///< of the topology's devices in order
  std::int64_t devices = 1;  ///< at most
};

/// Data parallelism inside every stage: samples over the group's devices in order, or over as many as every
/// operator of the group's stages can be split on. `groups`: stage s runs on groups[s % groups.size()].
PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups);

}  // namespace pipesim
