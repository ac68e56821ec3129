#include "search/joint/joint_plan.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

JointPlan joint_plan(const OperatorGraph& graph, const Topology& topology, std::int32_t microbatches,
                     const Strategy& strategy, const std::optional<Pipeline>& pipeline) {
  JointPlan plan;
  plan.microbatches = microbatches;
  plan.pipeline = pipeline.value_or(Pipeline{"1f1b", std::vector<std::int32_t>(strategy.size(), 0)});
  const auto stages = static_cast<std::size_t>(plan.pipeline.num_stages());
  plan.scheduled = pipeline && stages == 1;
  std::vector<StageGroup> groups(stages);
  const auto add = [](StageGroup& group, const std::vector<DeviceId>& devices) {
    for (const DeviceId d : devices) {
      if (std::ranges::find(group, d) == group.end()) group.push_back(d);
    }
  };
  for (std::size_t s = 0; s < stages; ++s) {
    const ParallelConfig* widest = nullptr;
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const bool here = plan.pipeline.stage_of[i] == static_cast<std::int32_t>(s);
      if (here && (!widest || strategy[i].devices.size() > widest->devices.size())) widest = &strategy[i];
    }
    if (!widest) throw InternalError("a stage without operators");
    add(groups[s], widest->devices);
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      if (plan.pipeline.stage_of[i] == static_cast<std::int32_t>(s)) add(groups[s], strategy[i].devices);
    }
  }
  for (const StageGroup& group : groups) {
    const auto has_them = [&](const StageMesh& mesh) {
      return std::ranges::is_permutation(mesh.devices, group);
    };
    if (std::ranges::none_of(plan.meshes, has_them)) plan.meshes.push_back({group, 1});
  }
  plan.own = own_configs(graph, topology, plan.pipeline, plan.meshes, strategy);
  return plan;
}

std::map<std::int32_t, ParallelConfig> own_configs(const OperatorGraph& graph, const Topology& topology,
                                                   const Pipeline& pipeline,
                                                   const std::vector<StageMesh>& meshes,
                                                   const Strategy& strategy) {
  std::map<std::int32_t, ParallelConfig> own;
  const Strategy plain = staged_strategy(graph, topology, pipeline, meshes).strategy;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (strategy[i] != plain[i]) own.emplace(static_cast<std::int32_t>(i), strategy[i]);
  }
  return own;
}

}  // namespace pipesim
