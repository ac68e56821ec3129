#pragma once

#include <span>
#include <utility>
#include <vector>

#include "costmodel/links/rings.h"

namespace pipesim {

/// Edges from parent to child, and how long a small message needs from the root to the last leaf.
struct Tree {
  std::vector<std::pair<DeviceId, DeviceId>> edges;
  std::size_t depth_in_nodes = 0;  ///< hops on the longest way, by what they cross
  std::size_t depth_between_nodes = 0;
};

/// NCCL's trees: a chain inside every node, a binary tree between the chains' heads. The trees come in pairs,
/// the inner nodes of one being mostly leaves of the other, and a pair per member position, so that every
/// network card has a part. All carry equal shares. `root`: the root of all of them, or an invalid id for
/// any.
std::vector<Tree> double_trees(NodeRings& node_rings, const std::vector<NodeMembers>& nodes, DeviceId root);

}  // namespace pipesim
