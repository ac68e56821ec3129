#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/intra/instance.h"
#include "search/intra/narrow.h"

namespace pipesim {

/// Turns an instance in which pairs of strategies have usages, too, into one in which only nodes have them:
/// an edge whose pairs have usages gets a node of its own. A strategy of that node says which strategy the
/// second end has, and what the pair uses beyond the least of all pairs with that strategy; the least counts
/// at the second end. Added nodes come after the others.
class PairUsages {
 public:
  /// `usages`: [edge][as its costs], 0 or more, where its ends are two nodes; none: no pair uses anything.
  /// They count while the edge's second end is alive.
  PairUsages(IntraInstance pairs, const std::vector<std::vector<std::int64_t>>& usages);

  /// Forbids all other choices of the nodes and edges that were there before.
  void forbid_others(const NarrowedChoices& within);

  [[nodiscard]] const IntraInstance& instance() const { return instance_; }
  [[nodiscard]] std::size_t nodes() const { return nodes_; }  ///< before
  /// Adds the strategies that the added nodes then have.
  [[nodiscard]] IntraAnswer extended(IntraAnswer answer) const;
  /// Removes the strategies of the added nodes.
  [[nodiscard]] IntraAnswer shortened(IntraAnswer answer) const;
  /// Returns the pairs of the edges and the strategies of the nodes that were there before.
  [[nodiscard]] NarrowedChoices shortened(const NarrowedChoices& within) const;

 private:
  struct AddedNode {
    std::size_t edge = 0;  // the edge before; then from its first end to the node, and on to the second
    std::size_t on = 0;    // number of the edge to the second end
    std::vector<std::uint32_t> of_pair;  // its strategy, as the edge's costs
  };
  void divide(std::size_t edge, const std::vector<std::int64_t>& usages);

  IntraInstance instance_;
  std::size_t nodes_ = 0, edges_ = 0;  // before
  std::vector<AddedNode> added_;
};

}  // namespace pipesim
