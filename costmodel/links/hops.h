#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// The lanes that run in parallel between the same two vertices: cables that software uses as one.
class LinkBundles {
 public:
  explicit LinkBundles(const Topology& topology);
  /// The lane and those parallel to it, ascending.
  [[nodiscard]] std::span<const LaneId> parallel_to(LaneId lane) const;

 private:
  std::vector<std::int32_t> bundle_of_;  ///< by lane; −1 for compute lanes
  std::vector<std::vector<LaneId>> bundles_;
};

/// The part of a message that a lane carries.
struct LaneShare {
  LaneId lane;
  double share = 1;
};

/// The way from one member of a group to another.
struct Hop {
  std::vector<LaneShare> lanes;
  double latency = 0;  ///< seconds, of the links alone
  bool crosses_nodes = false;
};

/// The hops of one group, each looked up once.
class Hops {
 public:
  Hops(const Topology& topology, const LinkBundles& bundles) : topology_(topology), bundles_(bundles) {}
  const Hop& between(DeviceId from, DeviceId to);
  [[nodiscard]] const Topology& topology() const { return topology_; }

 private:
  const Topology& topology_;
  const LinkBundles& bundles_;
  std::unordered_map<std::uint64_t, Hop> known_;
};

/// Bytes per lane, summed over many hops.
class LoadTable {
 public:
  explicit LoadTable(std::size_t num_lanes) : load_(num_lanes, 0) {}
  void add(const Hop& hop, double amount);
  [[nodiscard]] double of(LaneId lane) const { return load_[lane.index()]; }
  [[nodiscard]] std::span<const LaneId> lanes() const { return touched_; }  ///< in the order of first use
  void clear();

 private:
  std::vector<double> load_;
  std::vector<LaneId> touched_;
};

}  // namespace pipesim
