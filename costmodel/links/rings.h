#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "costmodel/links/hops.h"
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

/// Rings inside single nodes. Nodes whose members sit at the same local positions share one search.
class NodeRings {
 public:
  explicit NodeRings(Hops& hops) : hops_(hops) {}
  /// Returns rings whose shares add up to 1; none for a single member.
  std::vector<Ring> rings(const NodeMembers& members);
  /// The members from position `first` on along ring `k` (modulo their number).
  std::vector<DeviceId> order(const NodeMembers& members, std::size_t k, std::size_t first);

 private:
  struct Cycle {
    std::vector<std::size_t> order;  ///< positions in NodeMembers::devices
    double share = 1;
  };
  const std::vector<Cycle>& cycles(const NodeMembers& members);
  [[nodiscard]] std::vector<Cycle> search(std::span<const DeviceId> members) const;

  Hops& hops_;
  std::map<std::vector<std::int32_t>, std::vector<Cycle>> known_;  ///< by local positions
};

/// Rings over the links that the members really have, shares adding up to 1.
///
/// In small groups inside a node: the widest Hamiltonian cycle over the bandwidth that earlier cycles left,
/// again and again (exhaustive up to a fixed effort). On eight V100 in a cube mesh this finds the six rings
/// that NCCL uses. In other groups: node after node in the order of their numbers, each node along one of its
/// own cycles. Ring k enters every node at its k-th member, so that each network card carries its part.
std::vector<Ring> find_rings(NodeRings& node_rings, Hops& hops, std::span<const DeviceId> group);

}  // namespace pipesim
