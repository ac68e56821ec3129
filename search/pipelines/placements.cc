#include "search/pipelines/placements.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace pipesim {
namespace {

// Returns n over k as a floating-point number, which is exact while the result is below 2^53.
double choices(double n, std::int32_t k) {
  double product = 1;
  for (std::int32_t i = 1; i <= k; ++i) product = product * (n - k + i) / i;
  return product;
}

std::vector<DeviceId> in_place(const Topology& topology) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) devices.emplace_back(d);
  return devices;
}

bool nodes_interchange(const Topology& topology, std::int32_t a, std::int32_t b) {
  const std::span<const DeviceId> of_a = topology.devices_of_node(a), of_b = topology.devices_of_node(b);
  if (of_a.size() != of_b.size()) return false;
  std::vector<DeviceId> devices = in_place(topology);
  for (std::size_t i = 0; i < of_a.size(); ++i) std::swap(devices[of_a[i].index()], devices[of_b[i].index()]);
  return is_symmetry(topology, devices);
}

bool devices_interchange(const Topology& topology, DeviceId a, DeviceId b) {
  std::vector<DeviceId> devices = in_place(topology);
  std::swap(devices[a.index()], devices[b.index()]);
  return is_symmetry(topology, devices);
}

}  // namespace

bool is_symmetry(const Topology& topology, std::span<const DeviceId> devices) {
  std::map<LaneId, LaneId> lane_for, lane_of;  // both ways, so that no two lanes become one
  const auto stands_for = [&](LaneId lane, LaneId other) {
    return topology.lane_bandwidth(lane) == topology.lane_bandwidth(other) &&
           lane_for.try_emplace(lane, other).first->second == other &&
           lane_of.try_emplace(other, lane).first->second == lane;
  };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (topology.device(DeviceId(i)).kind != topology.device(devices[i]).kind) return false;
    for (std::size_t j = 0; j < devices.size(); ++j) {
      if (i == j) continue;
      if (topology.distance(DeviceId(i), DeviceId(j)) != topology.distance(devices[i], devices[j]))
        return false;
      const Route before = topology.route(DeviceId(i), DeviceId(j));
      const Route after = topology.route(devices[i], devices[j]);
      if (before.latency != after.latency || before.bandwidth != after.bandwidth ||
          !std::ranges::equal(before.lanes, after.lanes, stands_for))
        return false;
    }
  }
  return true;
}

Placements::Placements(const Topology& topology) {
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    Node node{{}, n};
    for (const DeviceId d : topology.devices_of_node(static_cast<std::int32_t>(n))) {
      const auto cell = std::ranges::find_if(
          node.cells, [&](const Cell& c) { return devices_interchange(topology, c.back(), d); });
      if (cell == node.cells.end()) {
        node.cells.push_back({d});
      } else {
        cell->push_back(d);
      }
    }
    for (std::size_t before = 0; before < n && node.like == n; ++before) {
      if (nodes_[before].like == before &&
          nodes_interchange(topology, static_cast<std::int32_t>(before), static_cast<std::int32_t>(n)))
        node.like = before;
    }
    nodes_.push_back(std::move(node));
  }
}

// Nodes that are alike take their ways as a multiset. Those that leave groups without devices are taken off
// (inclusion and exclusion).
double Placements::count(std::int32_t groups) const {
  double total = 0;
  for (std::int32_t empty = 0; empty <= groups; ++empty) {
    std::map<std::size_t, std::int32_t> alike;
    for (const Node& node : nodes_) ++alike[node.like];
    double product = empty % 2 == 0 ? choices(groups, empty) : -choices(groups, empty);
    for (const auto& [node, times] : alike) {
      double of_node = 1;
      for (const Cell& cell : nodes_[node].cells)
        of_node *= choices(static_cast<double>(cell.size()) + groups - empty, groups - empty);
      product *= choices(of_node + times - 1, times);
    }
    total += product;
  }
  return total;
}

std::vector<Placements::Counts> Placements::ways(const Node& node, std::int32_t groups) {
  std::vector<Counts> all;
  Counts counts(node.cells.size() * static_cast<std::size_t>(groups), 0);
  // Each count begins with the most that can be, so that groups take devices in their order.
  const auto extend = [&](const auto& self, std::size_t at, std::int32_t left) -> void {
    if (at == counts.size()) return all.push_back(counts);
    if (at % static_cast<std::size_t>(groups) == 0)
      left = static_cast<std::int32_t>(node.cells[at / static_cast<std::size_t>(groups)].size());
    for (counts[at] = left; counts[at] >= 0; --counts[at]) self(self, at + 1, left - counts[at]);
  };
  extend(extend, 0, 0);
  return all;
}

std::vector<std::vector<StageGroup>> Placements::list(std::int32_t groups) const {
  std::vector<std::vector<Counts>> ways_of(nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].like == n) ways_of[n] = ways(nodes_[n], groups);
  }
  std::vector<std::vector<StageGroup>> all;
  std::vector<std::size_t> chosen(nodes_.size());
  const auto size = static_cast<std::size_t>(groups);
  const auto add = [&] {
    std::vector<StageGroup> placement(size);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Counts& counts = ways_of[nodes_[n].like][chosen[n]];
      for (std::size_t c = 0; c < nodes_[n].cells.size(); ++c) {
        const Cell& cell = nodes_[n].cells[c];
        auto next = cell.begin();
        for (std::size_t g = 0; g < size; ++g) {
          const auto end = next + counts[c * size + g];
          placement[g].insert(placement[g].end(), next, end);
          next = end;
        }
      }
    }
    for (StageGroup& group : placement) {
      if (group.empty()) return;
      std::ranges::sort(group);
    }
    all.push_back(std::move(placement));
  };
  const auto choose = [&](const auto& self, std::size_t n) -> void {
    if (n == nodes_.size()) return add();
    // The node before it that is alike has not a later way than this one.
    chosen[n] = 0;
    for (std::size_t before = 0; before < n; ++before) {
      if (nodes_[before].like == nodes_[n].like) chosen[n] = chosen[before];
    }
    for (; chosen[n] < ways_of[nodes_[n].like].size(); ++chosen[n]) self(self, n + 1);
  };
  choose(choose, 0);
  return all;
}

}  // namespace pipesim
