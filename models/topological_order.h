#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipesim {

/// Either an order in which every node comes after its predecessors, or a cycle that makes it impossible.
struct TopologicalOrder {
  std::vector<std::size_t>
      order;  ///< among the nodes that are ready, the lowest first: a sorted list stays as it is
  std::vector<std::size_t>
      cycle;  ///< along the edges, each node once, the lowest first; empty when there is none
};

/// predecessors[v]: the nodes with an edge to v, repeats allowed.
TopologicalOrder topological_order(const std::vector<std::vector<std::size_t>>& predecessors);

/// "a -> b -> a".
std::string cycle_text(const std::vector<std::size_t>& cycle, const std::vector<std::string>& names);

}  // namespace pipesim
