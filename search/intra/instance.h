#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipesim {

/// Totals of an instance: thousands of costs of up to 10^18.
__extension__ typedef __int128 WideCost;

/// A cost of this much or more forbids the choice, as in the ASPLOS 2025 contest on intra-operator
/// parallelism (google/iopddl).
inline constexpr std::int64_t kForbidden = 1'000'000'000'000'000'000;

/// Choose one strategy for each node (Alpa, OSDI 2022, section 4.2). The cost is the sum over nodes and
/// edges. At each time the usages of the nodes that are alive add up to `limit` or less.
struct IntraInstance {
  /// A node is alive in [begin, end), and never where both are equal.
  struct Node {
    std::int64_t begin = 0, end = 0;
    std::vector<std::int64_t> cost;   ///< [strategy], at least one
    std::vector<std::int64_t> usage;  ///< [strategy], 0 or more
  };
  /// Edges between the same two nodes add up. Both ends may be one node; then the diagonal counts.
  struct Edge {
    std::uint32_t a = 0, b = 0;
    std::vector<std::int64_t> cost;  ///< [strategy of a · strategies of b + strategy of b]
  };

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::int64_t limit = 0;  ///< of the sum of usages at any time
  double unit = 1;         ///< what a cost of 1 stands for: 10^-6 where the file has fractions
};

/// The strategy of each node.
using IntraAnswer = std::vector<std::uint32_t>;

/// Returns the cost in decimal digits.
std::string to_string(WideCost cost);

}  // namespace pipesim
