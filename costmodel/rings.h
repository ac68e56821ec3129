#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/hops.h"
#include "sim/base/ids.h"

namespace pipesim {

/// A directed cycle through all members of a group and the share of every message that it carries.
struct Ring {
  std::vector<DeviceId> order;
  double share = 1;
};

/// The members of one node, ascending.
struct NodeMembers {
  std::int32_t node = -1;
  std::vector<DeviceId> devices;
};

/// `group` (ascending) by node, ascending.
std::vector<NodeMembers> members_by_node(const Topology& topology, std::span<const DeviceId> group);

/// Rings over the links that the members really have, shares adding up to 1.
///
/// Small groups inside a node: the widest Hamiltonian cycle over what the cycles before it left of the links,
/// again and again (exhaustive up to a fixed effort). On eight V100 in a cube mesh that finds the six rings
/// that NCCL uses. Others: node after node in the order of their numbers, each node along one of its own
/// cycles; ring k enters every node at its k-th member, so that each network card carries its part.
std::vector<Ring> find_rings(Hops& hops, std::span<const DeviceId> group);

/// Cycles of local positions 0 … members−1 for every node, most useful first; nodes with the same local
/// positions share the search.
class NodeCycles {
 public:
  explicit NodeCycles(Hops& hops) : hops_(hops) {}
  /// The members from position `first` on along cycle `k` (modulo their number).
  std::vector<DeviceId> order(const NodeMembers& members, std::size_t k, std::size_t first);

 private:
  Hops& hops_;
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::vector<std::size_t>>>> known_;
};

}  // namespace pipesim
