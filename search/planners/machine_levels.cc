#include "search/planners/machine_levels.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

double bandwidth(const Topology& topology, std::size_t a, std::size_t b) {
  return topology.route(DeviceId(a), DeviceId(b)).bandwidth.value;
}

[[noreturn]] void refuse(const Topology& topology, std::size_t a, std::size_t b) {
  throw InputError(fmt::format(
      "topology \"{}\" is no hierarchy of equal groups of devices, which the planner needs: {} and {} are "
      "connected otherwise",
      topology.name(), topology.device(DeviceId(a)).name, topology.device(DeviceId(b)).name));
}

// How many devices the groups of each level have, innermost first, and their bandwidth: as the first device
// sees it.
std::vector<std::pair<std::size_t, double>> groups_of_first(const Topology& topology) {
  std::map<double, std::size_t, std::greater<>> devices_at;
  for (std::size_t d = 1; d < topology.num_devices(); ++d) ++devices_at[bandwidth(topology, 0, d)];
  std::vector<std::pair<std::size_t, double>> groups;
  std::size_t devices = 1;
  for (const auto& [value, count] : devices_at) {
    if ((devices + count) % devices != 0) refuse(topology, 0, devices);
    groups.emplace_back(devices += count, value);
  }
  return groups;
}

}  // namespace

std::vector<MachineLevel> machine_levels(const Topology& topology) {
  if (topology.num_devices() == 1) return {{1, topology.kind(DeviceId(0)).memory_bandwidth}};
  std::vector<MachineLevel> levels;
  std::size_t inner = 1;
  for (const auto& [size, value] : groups_of_first(topology)) {
    if (topology.num_devices() % size != 0) refuse(topology, 0, topology.num_devices() - 1);
    // Every group's first device against the first ones of its other members: as many ways as devices.
    for (std::size_t base = 0; base < topology.num_devices(); base += size) {
      for (std::size_t other = base + inner; other < base + size; other += inner) {
        if (bandwidth(topology, base, other) != value) refuse(topology, base, other);
      }
    }
    levels.push_back({static_cast<std::int64_t>(size / inner), BytesPerSecond(value)});
    inner = size;
  }
  return levels;
}

}  // namespace pipesim
