#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/intra/instance.h"
#include "search/intra/narrow.h"

namespace pipesim {

/// An instance in which pairs of strategies use something as well, as one in which nodes alone do: an edge
/// where they do gets a node of its own. Its strategies say what the second end has, and what the pair uses
/// beyond the least of that strategy's pairs, which counts at the second end. Such nodes come after the
/// others.
class PairUsages {
 public:
  /// `usages`: [edge][as its costs], 0 or more, where its ends are two nodes; none: no pair uses anything.
  /// They count while the edge's second end is alive.
  PairUsages(IntraInstance pairs, const std::vector<std::vector<std::int64_t>>& usages);

  /// Leaves these choices of the nodes and edges that were there before.
  void forbid_others(const NarrowedChoices& within);

  [[nodiscard]] const IntraInstance& instance() const { return instance_; }
  [[nodiscard]] std::size_t nodes() const { return nodes_; }  ///< before
  /// With the strategies that the added nodes then have.
  [[nodiscard]] IntraAnswer extended(IntraAnswer answer) const;
  /// Without the added nodes.
  [[nodiscard]] IntraAnswer shortened(IntraAnswer answer) const;
  /// The pairs of the edges, and strategies of the nodes, that were there before.
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
