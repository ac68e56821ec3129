#include "search/pipelines/pipelined_strategy.h"

#include <algorithm>

#include "search/baselines/expert.h"
#include "search/baselines/placement.h"

namespace pipesim {
namespace {

ParallelConfig sample_parallel(const Operator& op, const StageGroup& group) {
  const FactorSplit split = sample_split(op, static_cast<std::int64_t>(group.size()));
  return arranged(op, std::span(&split, 1), group);
}

// Copies are always possible, but do as much work as one device.
bool shares_work(const Operator& op, std::size_t rows) {
  return !sample_factor(op) ||
         sample_split(op, static_cast<std::int64_t>(rows)).factor != ShardGrid::replica_axis;
}

StageGroup first_of(const StageGroup& group, std::size_t devices) {
  return {group.begin(), group.begin() + static_cast<std::ptrdiff_t>(devices)};
}

// The stages' first replicas alone.
PipelinedStrategy without_turns(const OperatorGraph& graph, const Topology& topology, Pipeline pipeline,
                                const std::vector<StageMesh>& meshes) {
  std::vector<std::size_t> rows;
  for (const StageMesh& mesh : meshes)
    rows.push_back(mesh.devices.size() / static_cast<std::size_t>(mesh.tensor));
  const auto mesh_of = [&](std::size_t op) {
    return mesh_of_stage(pipeline, pipeline.stage_of[op], meshes.size());
  };
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    std::size_t& used = rows[mesh_of(i)];
    const StageGroup& group = meshes[mesh_of(i)].devices;
    const auto fits = [&] {
      return shares_work(op, used) && !illegal(op, sample_parallel(op, first_of(group, used)), topology);
    };
    while (used > 1 && !fits()) --used;
  }
  PipelinedStrategy made{{}, std::move(pipeline), meshes};
  std::vector<Strategy> of_mesh;  // the whole model on each; empty where there is data parallelism only
  std::vector<StageGroup> used;
  for (std::size_t m = 0; m < meshes.size(); ++m) {
    const auto tensor = static_cast<std::size_t>(meshes[m].tensor);
    used.push_back(first_of(meshes[m].devices, rows[m] * tensor));
    of_mesh.emplace_back();
    if (tensor > 1)
      of_mesh[m] =
          tensor_parallel_strategy(graph, {static_cast<std::int64_t>(rows[m]), meshes[m].tensor, used[m]});
  }
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::size_t m = mesh_of_stage(made.pipeline, made.pipeline.stage_of[i], meshes.size());
    made.strategy.push_back(of_mesh[m].empty() ? sample_parallel(graph.operators()[i], used[m])
                                               : std::move(of_mesh[m][i]));
  }
  return made;
}

// Copies of what the first replica does, on the others' devices.
void add_replicas(ParallelConfig& config, const StageMesh& mesh) {
  const std::vector<DeviceId> of_first = config.devices;
  const std::size_t each = mesh.devices.size() / static_cast<std::size_t>(mesh.replicas);
  for (std::size_t first = each; first < mesh.devices.size(); first += each) {
    for (const DeviceId d : of_first) {
      const auto at = static_cast<std::size_t>(std::ranges::find(mesh.devices, d) - mesh.devices.begin());
      config.devices.push_back(mesh.devices[first + at]);
    }
  }
  config.replicas *= static_cast<std::int32_t>(mesh.replicas);
}

}  // namespace

std::size_t mesh_of_stage(const Pipeline& pipeline, std::int32_t stage, std::size_t meshes) {
  return static_cast<std::size_t>(
      device_of_stage(stage, static_cast<std::int64_t>(meshes), lies_in_v(pipeline.schedule)));
}

PipelinedStrategy staged_strategy(const OperatorGraph& graph, const Topology& topology, Pipeline pipeline,
                                  const std::vector<StageMesh>& meshes) {
  if (std::ranges::all_of(meshes, [](const StageMesh& mesh) { return mesh.replicas == 1; }))
    return without_turns(graph, topology, std::move(pipeline), meshes);
  std::vector<StageMesh> first = meshes;
  for (StageMesh& mesh : first) {
    mesh.devices.resize(mesh.devices.size() / static_cast<std::size_t>(mesh.replicas));
    mesh.replicas = 1;
  }
  PipelinedStrategy made = without_turns(graph, topology, std::move(pipeline), first);
  made.meshes = meshes;
  const auto mesh_of = [&](std::int32_t stage) -> const StageMesh& {
    return meshes[mesh_of_stage(made.pipeline, stage, meshes.size())];
  };
  for (std::size_t i = 0; i < made.strategy.size(); ++i)
    add_replicas(made.strategy[i], mesh_of(made.pipeline.stage_of[i]));
  made.pipeline.replicas.clear();
  for (std::int32_t s = 0; s < made.pipeline.num_stages(); ++s)
    made.pipeline.replicas.push_back(static_cast<std::int32_t>(mesh_of(s).replicas));
  return made;
}

std::vector<std::int32_t> stages_of_layers(const std::vector<std::int32_t>& layer_of,
                                           const std::vector<std::int32_t>& last_layers) {
  std::vector<std::int32_t> stage_of;
  for (const std::int32_t layer : layer_of)
    stage_of.push_back(
        static_cast<std::int32_t>(std::ranges::lower_bound(last_layers, layer) - last_layers.begin()));
  return stage_of;
}

PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups) {
  std::vector<StageMesh> meshes;
  for (const StageGroup& group : groups) meshes.push_back({group, 1});
  return staged_strategy(graph, topology, std::move(pipeline), meshes);
}

}  // namespace pipesim
