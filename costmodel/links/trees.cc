#include "costmodel/links/trees.h"

#include <algorithm>
#include <bit>

namespace pipesim {

namespace {

constexpr std::size_t most_tree_pairs = 16;

/// Parent of place i in a binary heap: depth ⌊log2(n)⌋, the second half of the places are leaves.
std::size_t parent_of(std::size_t place) { return (place - 1) / 2; }

Tree tree_over(const std::vector<std::vector<DeviceId>>& chains) {
  Tree tree;
  for (std::size_t place = 0; place < chains.size(); ++place) {
    const auto& chain = chains[place];
    if (place > 0) tree.edges.emplace_back(chains[parent_of(place)].front(), chain.front());
    for (std::size_t i = 1; i < chain.size(); ++i) tree.edges.emplace_back(chain[i - 1], chain[i]);
    tree.depth_in_nodes = std::max(tree.depth_in_nodes, chain.size() - 1);
  }
  tree.depth_between_nodes = static_cast<std::size_t>(std::bit_width(chains.size())) - 1;
  return tree;
}

/// Chains of all nodes, each from its k-th member on; the root's node first and from the root on.
std::vector<std::vector<DeviceId>> chains_from(NodeRings& node_rings, const std::vector<NodeMembers>& nodes,
                                               std::size_t k, DeviceId root) {
  std::vector<std::vector<DeviceId>> chains;
  for (const NodeMembers& members : nodes) {
    auto here = std::find(members.devices.begin(), members.devices.end(), root);
    bool holds_root = here != members.devices.end();
    std::size_t first =
        holds_root ? static_cast<std::size_t>(here - members.devices.begin()) : k % members.devices.size();
    chains.push_back(node_rings.order(members, k, first));
    if (holds_root) std::rotate(chains.begin(), chains.end() - 1, chains.end());
  }
  return chains;
}

}  // namespace

std::vector<Tree> double_trees(NodeRings& node_rings, const std::vector<NodeMembers>& nodes, DeviceId root) {
  std::size_t largest = 0;
  for (const NodeMembers& members : nodes) largest = std::max(largest, members.devices.size());
  std::vector<Tree> trees;
  for (std::size_t k = 0; k < std::min(largest, most_tree_pairs); ++k) {
    std::vector<std::vector<DeviceId>> chains = chains_from(node_rings, nodes, k, root);
    trees.push_back(tree_over(chains));
    std::reverse(chains.begin() + (root.valid() ? 1 : 0), chains.end());
    trees.push_back(tree_over(chains));
  }
  return trees;
}

}  // namespace pipesim
