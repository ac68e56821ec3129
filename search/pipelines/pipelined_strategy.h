#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Devices that run a stage or, with chunks, several; distinct, at least one.
using StageGroup = std::vector<DeviceId>;

/// A stage's devices and how it is split over them: rows of `tensor` devices, each of which has an equal
/// share of the samples. Inside a row operators are split as tensor_parallel_strategy() does.
struct StageMesh {
  StageGroup devices;
  std::int64_t tensor = 1;  ///< divides the number of devices of a replica
  /// That take microbatches in turn (Pipeline::replicas), on equal parts of the devices in this order, each
  /// split as said above. Divides the number of devices.
  std::int64_t replicas = 1;
  bool operator==(const StageMesh&) const = default;
};

/// What a planner of pipelines proposes.
struct PipelinedStrategy {
  Strategy strategy;
  Pipeline pipeline;
  std::vector<StageMesh> meshes;  ///< as they were asked for
};

/// Stages on meshes. Of a mesh as many rows are used, from the first on, as every operator's samples can be
/// split in. `meshes`: stage s runs on meshes[s % meshes.size()]. Configs of more than one device a row may
/// be illegal, see illegal(). With replicas that take turns the pipeline gets their numbers.
PipelinedStrategy staged_strategy(const OperatorGraph& graph, const Topology& topology, Pipeline pipeline,
                                  const std::vector<StageMesh>& meshes);

/// The stage of every operator, from its layer and the last layer of each stage.
std::vector<std::int32_t> stages_of_layers(const std::vector<std::int32_t>& layer_of,
                                           const std::vector<std::int32_t>& last_layers);

/// The same with data parallelism inside every stage: always legal.
PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups);

}  // namespace pipesim
