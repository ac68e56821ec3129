#include "tools/running/side_by_side.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tools/running/plan_run.h"

namespace pipesim {

Strategy side_by_side(const OperatorGraph& graph, const Topology& topology, const Plan& plan) {
  const std::vector<DeviceId> used = devices_of(plan.strategy);
  if (plan.options.pipeline || used.empty()) return plan.strategy;
  std::vector<DeviceId> idle;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    if (!std::ranges::binary_search(used, DeviceId(d))) idle.emplace_back(d);
  }
  const std::size_t copies = idle.size() / used.size();
  if (copies == 0) return plan.strategy;
  Strategy wide = plan.strategy;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    std::map<DeviceId, DeviceId> place;
    for (std::size_t i = 0; i < used.size(); ++i) place[used[i]] = idle[copy * used.size() + i];
    for (std::size_t op = 0; op < wide.size(); ++op) {
      // Replicas are the slowest axis of the shards.
      for (const DeviceId d : plan.strategy[op].devices) wide[op].devices.push_back(place.at(d));
      wide[op].replicas += plan.strategy[op].replicas;
    }
  }
  return illegal(graph, wide, plan.options, topology) ? plan.strategy : wide;
}

}  // namespace pipesim
