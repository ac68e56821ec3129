#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "topologies/routing.h"
#include "topologies/topology.h"
#include "topologies/tree_cache.h"

namespace pipesim {

/// Shortest ways in topologies whose nodes hang on a network: no link joins two nodes, and no way gains by
/// passing through a third. A way then lies in its two nodes and what is in no node, so it is found quickly
/// however many nodes there are. The ways, ties included, are those of trees over all vertices.
class NodeRoutes {
 public:
  /// Returns null for other topologies, and for those of one node. `hangs` marks vertices that no tree holds;
  /// their links are left out.
  static std::unique_ptr<NodeRoutes> find(const TopologyParts& parts, const std::vector<bool>& hangs,
                                          std::size_t tree_bytes);

  /// Returns the arcs from the last to the first. Neither end may hang.
  [[nodiscard]] std::vector<Arc> way_backwards(std::int32_t from, std::int32_t to) const;

 private:
  struct Step {
    std::int32_t from = 0, to = 0;
    Arc arc;
    RouteCost cost;
  };
  /// Entries go by place: those of the network's vertices, then those of the vertices of one node.
  struct Tree {
    std::vector<RouteCost> cost;
    std::vector<Arc> arc;  ///< the lowest that leads there on a shortest way
  };

  explicit NodeRoutes(const TopologyParts& parts) : parts_(parts) {}
  bool add_links(const std::vector<bool>& hangs);
  [[nodiscard]] bool nothing_passes_through() const;
  [[nodiscard]] bool passes(std::int32_t node, std::int32_t from, const Tree& network) const;
  /// The tree goes over the network, and over `node` unless that is −1.
  [[nodiscard]] Tree tree_from(std::int32_t source, std::int32_t node) const;
  /// Continues `tree` from the network's vertices into `node`; entries go by place in the node.
  [[nodiscard]] Tree continued(const Tree& tree, std::int32_t node) const;
  /// The same, cached: trees of many sources have the same costs at the node's entrances.
  [[nodiscard]] std::shared_ptr<const Tree> kept_inside(const Tree& tree, std::int32_t node) const;
  template <class Visit>
  void for_each_step(std::int32_t vertex, std::int32_t node, Visit visit) const;

  [[nodiscard]] std::int32_t node_of(std::int32_t vertex) const;
  [[nodiscard]] std::size_t place(std::int32_t vertex) const {
    return place_[static_cast<std::size_t>(vertex)];
  }
  [[nodiscard]] std::size_t place_in_tree(std::int32_t vertex) const {
    return (node_of(vertex) < 0 ? 0 : network_.size()) + place(vertex);
  }

  const TopologyParts& parts_;
  std::vector<std::size_t> place_;                  ///< by vertex: in network_ or in its node's members_
  std::vector<std::int32_t> network_;               ///< vertices of no node
  std::vector<std::vector<std::int32_t>> members_;  ///< by node
  std::vector<std::vector<Step>> out_;              ///< by vertex, less those from the network into nodes
  std::vector<std::vector<Step>> entrances_;        ///< by node: those
  mutable std::unique_ptr<TreeCache<Tree>> trees_;
  struct Inside {
    std::vector<RouteCost> entered;  ///< by entrance
    std::shared_ptr<const Tree> tree;
  };
  struct InsideShard {
    std::mutex mutex;
    std::unordered_map<std::int32_t, std::deque<Inside>> of_node;
  };
  mutable std::array<InsideShard, 64> insides_;  ///< by node, modulo their number
};

}  // namespace pipesim
