#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/intra/model.h"

namespace pipesim {

/// What the reductions leave of an instance, with its arrays one after the other. It never changes.
struct IntraCore {
  struct Part {
    std::uint32_t begin = 0, end = 0;  ///< rows
    std::vector<double> usage;         ///< [strategy]
  };
  /// One end's view of an edge.
  struct Side {
    std::uint32_t edge = 0, other = 0;
    bool first = true;                ///< the node is the edge's first
    std::size_t table = 0;            ///< of tables: [strategy of the other · own strategies + own strategy]
    std::size_t own = 0, others = 0;  ///< of messages: to this node, to the other one
  };
  struct Node {
    std::uint32_t number = 0;  ///< in the model
    std::size_t first = 0;     ///< of costs
    std::uint32_t size = 0;    ///< strategies
    std::vector<Part> parts;
    std::vector<Side> sides;              ///< in ascending order of the others
    std::vector<std::uint32_t> strategy;  ///< numbers in the instance
  };

  std::vector<Node> nodes;
  std::vector<double> costs;       ///< of all nodes' strategies
  std::vector<double> tables;      ///< of all edges, from both sides, equal ones once
  std::size_t cells = 0;           ///< entries of all edges' tables
  std::vector<double> capacity;    ///< by row
  std::vector<std::int64_t> time;  ///< by row, see IntraModel
  double constant = 0;             ///< belongs to every choice's cost, but cost() is without it
  std::size_t messages = 0;  ///< entries of an array with one for each strategy of each end of each edge
  std::size_t num_edges = 0;

  explicit IntraCore(const IntraModel& model);

  [[nodiscard]] std::size_t rows() const { return capacity.size(); }
  /// Returns the messages of another core with the same nodes and strategies, or more, for the edges that are
  /// here too. Messages of other edges are 0.
  [[nodiscard]] std::vector<double> messages_from(const IntraCore& other,
                                                  const std::vector<double>& messages) const;
  [[nodiscard]] double cost(const std::vector<std::uint32_t>& choice) const;
  /// Convert between the strategies of this core's nodes and those of the instance.
  [[nodiscard]] std::vector<std::uint32_t> choice_of(const IntraAnswer& answer) const;
  void put(const std::vector<std::uint32_t>& choice, IntraAnswer& answer) const;
  /// Adds `sign` times what the node uses.
  void add_usage(std::uint32_t node, std::uint32_t strategy, double sign, std::span<double> used) const;
  /// Returns by how much usage exceeds the capacity at the worst row; 0 or less: nowhere.
  [[nodiscard]] double overuse(std::span<const double> used) const;
};

}  // namespace pipesim
