#include "search/alpa/submeshes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "search/baselines/placement.h"
#include "sim/base/errors.h"

namespace pipesim {

std::vector<std::int64_t> submesh_sizes(const Topology& topology) {
  const std::int64_t node = smallest_node(topology);
  const auto all = static_cast<std::int64_t>(topology.num_devices());
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < node; n *= 2) sizes.push_back(n);
  for (std::int64_t n = node; n <= all; n += node) sizes.push_back(n);
  return sizes;
}

std::vector<StageGroup> place_submeshes(const Topology& topology, const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<DeviceId>> free;  // by node
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    const auto devices = topology.devices_of_node(static_cast<std::int32_t>(n));
    free.emplace_back(devices.begin(), devices.end());
  }
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t s) { return sizes[s]; });
  std::vector<StageGroup> groups(sizes.size());
  for (const std::size_t s : order) {
    const auto wanted = static_cast<std::size_t>(sizes[s]);
    const auto take = [&](std::vector<DeviceId>& node) {
      const std::size_t count = std::min(wanted - groups[s].size(), node.size());
      groups[s].insert(groups[s].end(), node.begin(), node.begin() + static_cast<std::ptrdiff_t>(count));
      node.erase(node.begin(), node.begin() + static_cast<std::ptrdiff_t>(count));
    };
    const auto room = std::ranges::find_if(free, [&](const auto& node) { return node.size() >= wanted; });
    if (room != free.end()) {
      take(*room);
      continue;
    }
    for (auto& node : free) take(node);
    if (groups[s].size() < wanted) throw InternalError("more devices in stages than the topology has");
  }
  return groups;
}

}  // namespace pipesim
