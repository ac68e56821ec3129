#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/pipelines/pipelined_strategy.h"
#include "topologies/topology.h"

namespace pipesim {

/// Does nothing change when every device is replaced by devices[its id]? The same kinds, the same nodes
/// together, routes as fast, and lanes shared by the same routes.
bool is_symmetry(const Topology& topology, std::span<const DeviceId> devices);

/// The ways to give devices to groups, no two of which a symmetry of the topology makes the same: neither an
/// exchange of two devices of a node, nor of two nodes with as many devices, each in its order. Devices may
/// stay idle.
class Placements {
 public:
  /// Looks at all routes once for every node and for every device with one before it.
  explicit Placements(const Topology& topology);

  /// How many there are for so many groups, at least 1, of at least one device each; exact below 2^53.
  [[nodiscard]] double count(std::int32_t groups) const;
  /// All of them; by placement the groups, each with its devices ascending.
  [[nodiscard]] std::vector<std::vector<StageGroup>> list(std::int32_t groups) const;

 private:
  /// Devices that are interchangeable.
  using Cell = std::vector<DeviceId>;
  struct Node {
    std::vector<Cell> cells;
    std::size_t like = 0;  ///< number of the first node that is interchangeable with it, perhaps itself
  };
  /// How many devices each group has of each cell of a node: cells · groups counts.
  using Counts = std::vector<std::int32_t>;

  [[nodiscard]] static std::vector<Counts> ways(const Node& node, std::int32_t groups);

  std::vector<Node> nodes_;
};

}  // namespace pipesim
