#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/alpa/alpa.h"
#include "search/alpa/submeshes.h"
#include "search/pipelines/pipelined_strategy.h"

namespace pipesim {

/// The stages of a plan that splits them in rows, on devices.
inline PipelinedStrategy placed_rows(const OperatorGraph& graph, const Topology& topology,
                                     const AlpaPlan& plan, const std::string& schedule) {
  std::vector<StageMesh> meshes;
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> last_layers;
  for (const std::size_t number : plan.partition.stages) {
    sizes.push_back(plan.options[number].devices);
    last_layers.push_back(plan.options[number].last);
    meshes.push_back({{}, plan.options[number].config});
  }
  const std::vector<StageGroup> groups = place_submeshes(topology, sizes);
  for (std::size_t s = 0; s < groups.size(); ++s) meshes[s].devices = groups[s];
  return staged_strategy(graph, topology, {schedule, stages_of_layers(plan.cluster_of, last_layers)}, meshes);
}

}  // namespace pipesim
