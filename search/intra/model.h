#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "search/intra/instance.h"

namespace pipesim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// An instance while it is reduced: nodes get fewer strategies and vanish, edges merge. Costs are doubles,
/// and infinite where they forbid. Times are rows: the moments whose live sets are maximal, in order.
struct IntraModel {
  /// What a node uses in the rows [begin, end).
  struct Part {
    std::uint32_t begin = 0, end = 0;
    std::vector<std::int64_t> usage;  ///< [strategy that is left]
  };
  struct Node {
    std::vector<double> cost;             ///< [strategy that is left]
    std::vector<std::uint32_t> strategy;  ///< its number in the instance
    std::vector<Part> parts;
    std::vector<std::uint32_t> edges;
    bool left = true;
  };
  struct Edge {
    std::uint32_t a = 0, b = 0;
    std::vector<double> cost;  ///< [strategy of a · strategies of b + strategy of b]
    bool left = true;
    std::uint32_t at_a = 0, at_b = 0;  ///< where it stands among the edges of its ends

    [[nodiscard]] std::uint32_t other(std::uint32_t node) const { return node == a ? b : a; }
  };
  /// A node that vanished: its strategy, given those of its neighbours.
  struct Vanished {
    std::uint32_t node = 0;
    std::vector<std::uint32_t> given;  ///< nodes, by number in the instance
    std::vector<std::uint32_t> sizes;  ///< how many strategies each of them has in the instance
    std::vector<std::uint32_t>
        choice;  ///< the strategy, by theirs, the last fastest; numbers of the instance
  };

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<std::int64_t> capacity;  ///< by row: what the nodes that are left may use
  std::vector<std::int64_t> time;      ///< by row: a moment of the instance
  double constant = 0;                 ///< the cost of what vanished
  std::vector<Vanished> vanished;      ///< in order
  std::vector<std::shared_ptr<const std::vector<Vanished>>> vanished_before;  ///< that copies share
  bool infeasible = false;

  IntraModel() = default;
  /// Throws InputError where the usage of no choice can be within the limit.
  explicit IntraModel(const IntraInstance& instance);

  /// The strategies of all nodes of the instance, given those of the nodes that are left, which are numbers
  /// in the instance.
  void restore(IntraAnswer& answer) const;
  /// Makes copies cheap: they share what has vanished until now.
  void share_vanished();
  /// The edge between two nodes, or a new one without costs.
  std::uint32_t edge_between(std::uint32_t a, std::uint32_t b);
  void add_table(std::uint32_t a, std::uint32_t b, const std::vector<double>& table);  ///< row-major, a first
  void remove_edge(std::uint32_t edge);
  /// Keeps the strategies that are marked.
  void keep(std::uint32_t node, const std::vector<bool>& kept);
  /// Adds usage; parts of the same rows are joined.
  void add_part(std::uint32_t node, Part part);

 private:
  void forget_edge(std::uint32_t node, std::uint32_t at);

  std::unordered_map<std::uint64_t, std::uint32_t> edge_of_;
};

}  // namespace pipesim
