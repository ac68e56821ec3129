#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/base/rng.h"
#include "tests/seeds.h"
#include "topologies/topology.h"

namespace pipesim {

/// A device of 100 TFLOP/s, of which every kernel reaches half, 1 TB/s, of which kernels reach 0.8, and 2 µs
/// a launch.
inline DeviceKind plain_kind() {
  DeviceKind kind;
  kind.name = "plain";
  kind.peak = {{DataType::Float32, FlopsPerSecond(100e12)}};
  kind.products.efficiency = {{Flops(1e6), 0.5}};
  kind.memory = Bytes(16'000'000'000);
  kind.memory_bandwidth = BytesPerSecond(1e12);
  kind.memory_efficiency = 0.8;
  kind.launch_overhead = Seconds(2e-6);
  return kind;
}

struct Rates {
  double inside = 100e9, outside = 10e9;  ///< bytes per second of a device's link, of its network card
  double inside_latency = 1e-6, outside_latency = 5e-6;  ///< seconds from device to device
};

/// Nodes of devices that hang on one switch each; every device also has a network card of its own.
inline Topology switched(const std::vector<std::int32_t>& devices_per_node, DeviceKind kind = plain_kind(),
                         Rates rates = {}) {
  TopologyParts parts;
  parts.name = "switched";
  parts.kinds = {std::move(kind)};
  for (std::size_t n = 0; n < devices_per_node.size(); ++n) {
    parts.nodes.push_back(fmt::format("node{}", n));
    for (std::int32_t d = 0; d < devices_per_node[n]; ++d) {
      std::string name = fmt::format("node{}.gpu{}", n, d);
      parts.devices.push_back({name, 0, static_cast<std::int32_t>(n)});
      parts.vertices.push_back({name, VertexKind::Device, static_cast<std::int32_t>(n)});
    }
  }
  auto network = static_cast<std::int32_t>(parts.vertices.size());
  parts.vertices.push_back({"network", VertexKind::Switch, -1});
  for (std::size_t n = 0; n < devices_per_node.size(); ++n) {
    parts.vertices.push_back({fmt::format("switch{}", n), VertexKind::Switch, static_cast<std::int32_t>(n)});
  }
  auto connect = [&](std::int32_t a, std::int32_t b, double bandwidth, double latency) {
    Link link;
    link.a = a, link.b = b;
    link.bandwidth = BytesPerSecond(bandwidth);
    link.latency = Seconds(latency / 2);
    parts.links.push_back(link);
  };
  for (std::size_t d = 0; d < parts.devices.size(); ++d) {
    auto device = static_cast<std::int32_t>(d);
    connect(device, network + 1 + parts.devices[d].node, rates.inside, rates.inside_latency);
    if (devices_per_node.size() > 1) connect(device, network, rates.outside, rates.outside_latency);
  }
  if (devices_per_node.size() == 1) connect(network, network + 1, rates.outside, rates.outside_latency);
  return Topology(std::move(parts));
}

inline std::vector<DeviceId> devices(std::initializer_list<int> ids) {
  std::vector<DeviceId> group;
  for (int id : ids) group.emplace_back(id);
  return group;
}

/// Devices 0 … n−1.
inline std::vector<DeviceId> first_devices(std::size_t n) {
  std::vector<DeviceId> group;
  for (std::size_t i = 0; i < n; ++i) group.emplace_back(i);
  return group;
}

/// A measured figure against ours.
struct Comparison {
  double predicted = 0, measured = 0;
  [[nodiscard]] double error() const { return std::abs(predicted / measured - 1); }
};

inline double median_error(const std::vector<Comparison>& rows) {
  std::vector<double> errors;
  for (const Comparison& row : rows) errors.push_back(row.error());
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2),
                   errors.end());
  return errors[errors.size() / 2];
}

}  // namespace pipesim
