#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/pipelines/pipelined_strategy.h"
#include "topologies/topology.h"

namespace pipesim {

/// Whether nothing changes when every device is replaced by devices[its id]: the same kinds, the same devices
/// together in nodes, routes as fast, and lanes shared by the same routes.
bool is_symmetry(const Topology& topology, std::span<const DeviceId> devices);

/// All essentially different ways to assign devices to groups. Two ways count as the same when a symmetry of
/// the topology turns one into the other. The symmetries are exchanges of two devices of a node, and
/// exchanges of two nodes with equally many devices, each in its order. Devices may stay idle.
class Placements {
 public:
  /// Looks at all routes once for every node and for every device with one before it.
  explicit Placements(const Topology& topology);

  /// The number of placements for this number of groups, at least 1, with at least one device each; exact
  /// below 2^53.
  [[nodiscard]] double count(std::int32_t groups) const;
  /// All placements; for each, the groups with their devices ascending.
  [[nodiscard]] std::vector<std::vector<StageGroup>> list(std::int32_t groups) const;

 private:
  /// Devices that are interchangeable.
  using Cell = std::vector<DeviceId>;
  struct Node {
    std::vector<Cell> cells;
    std::size_t like = 0;  ///< number of the first node that is interchangeable with it, perhaps itself
  };
  /// The number of devices that each group has from each cell of a node: cells · groups counts.
  using Counts = std::vector<std::int32_t>;

  [[nodiscard]] static std::vector<Counts> ways(const Node& node, std::int32_t groups);

  std::vector<Node> nodes_;
};

}  // namespace pipesim
