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

/// Returns the bandwidth of the lanes together, in bytes per second.
double total_bandwidth(const Topology& topology, std::span<const LaneId> lanes);

/// A lane, and its number among those that a group's hops have met.
struct MetLane {
  LaneId lane;
  std::size_t number = 0;
};

/// The part of a message that a lane carries.
struct LaneShare {
  MetLane lane;
  double share = 1;
};

/// The way from one member of a group to another.
struct Hop {
  std::vector<LaneShare> lanes;
  double latency = 0;  ///< seconds, of the links alone
  bool crosses_nodes = false;
};

/// The hops of one group, each looked up once. A group meets few of a large machine's lanes, so these get
/// numbers of their own.
class Hops {
 public:
  Hops(const Topology& topology, const LinkBundles& bundles) : topology_(topology), bundles_(bundles) {}
  const Hop& between(DeviceId from, DeviceId to);
  [[nodiscard]] const Topology& topology() const { return topology_; }
  /// Returns the bandwidths of the lanes met so far, by number, in bytes per second.
  [[nodiscard]] std::span<const double> bandwidths() const { return bandwidths_; }

 private:
  [[nodiscard]] MetLane met(LaneId lane);

  const Topology& topology_;
  const LinkBundles& bundles_;
  std::unordered_map<std::uint64_t, Hop> known_;
  std::unordered_map<LaneId, std::size_t> numbers_;
  std::vector<double> bandwidths_;
};

/// Bytes per lane, summed over many hops of one group.
class LoadTable {
 public:
  void add(const Hop& hop, double amount);
  [[nodiscard]] double of(MetLane lane) const { return load_[lane.number]; }
  [[nodiscard]] std::span<const MetLane> lanes() const { return touched_; }  ///< in the order of first use
  void clear();

 private:
  std::vector<double> load_;  ///< by number, as far as there is any
  std::vector<MetLane> touched_;
};

}  // namespace pipesim
