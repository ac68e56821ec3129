#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Devices that run a stage or, with chunks, several; distinct, at least one.
using StageGroup = std::vector<DeviceId>;

/// A stage's devices and how it is split over them. The devices form rows of `tensor` devices, and each row
/// takes an equal share of the samples. Inside a row operators are split as tensor_parallel_strategy() does.
struct StageMesh {
  StageGroup devices;
  std::int64_t tensor = 1;  ///< divides the number of devices of a replica
  /// Number of replicas that take microbatches in turn (Pipeline::replicas). Each gets an equal part of the
  /// devices, in this order, split as above. Divides the number of devices.
  std::int64_t replicas = 1;
  bool operator==(const StageMesh&) const = default;
};

/// The proposal of a pipeline planner.
struct PipelinedStrategy {
  Strategy strategy;
  Pipeline pipeline;
  std::vector<StageMesh> meshes;  ///< as they were asked for
};

/// The number of the mesh on which a stage runs, by the schedule: see device_of_stage().
std::size_t mesh_of_stage(const Pipeline& pipeline, std::int32_t stage, std::size_t meshes);

/// Places stages on meshes; mesh_of_stage() says which one a stage runs on. A stage uses the first rows of
/// its mesh, as many as every operator's samples can be divided among. Configs with more than one device per
/// row may be illegal, see illegal(). Replicas that take turns are entered in the pipeline.
PipelinedStrategy staged_strategy(const OperatorGraph& graph, const Topology& topology, Pipeline pipeline,
                                  const std::vector<StageMesh>& meshes);

/// The stage of every operator, from its layer and the last layer of each stage.
std::vector<std::int32_t> stages_of_layers(const std::vector<std::int32_t>& layer_of,
                                           const std::vector<std::int32_t>& last_layers);

/// Does the same with data parallelism inside every stage, which is always legal.
PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups);

}  // namespace pipesim
