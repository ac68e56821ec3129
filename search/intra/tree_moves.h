#pragma once

#include <cstdint>
#include <vector>

#include "search/intra/core.h"
#include "search/intra/row_prices.h"
#include "sim/base/rng.h"

namespace pipesim {

/// Improves a choice by large neighbourhoods. A move frees nodes that form a forest and holds all others. The
/// forest's best choice at the prices of the rows is found exactly, as a tree's in Hamze and de Freitas 2004.
/// Where it uses too much, the row that is used most above its capacity gets dearer, and the move is tried
/// again.
class TreeMoves {
 public:
  TreeMoves(const IntraCore& core, Rng rng);

  void set(const std::vector<std::uint32_t>& choice);
  void set_prices(const RowPrices& prices) { prices_ = prices; }
  /// Moves until about so many entries of tables were read. Costs of strategies are disturbed by about
  /// `temperature`, and a choice may be dearer than the best by `tolerance`.
  void run(std::uint64_t work, double temperature, double tolerance);

  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return choice_; }
  [[nodiscard]] double cost() const { return cost_; }
  /// The sum over rows of shares of the capacity that are used above it. 0: the choice is allowed.
  [[nodiscard]] double excess() const { return excess_; }
  /// Returns the choice with the least excess since set(), and the cheapest of those.
  [[nodiscard]] const std::vector<std::uint32_t>& best() const { return best_; }
  [[nodiscard]] double best_cost() const { return best_cost_; }
  [[nodiscard]] double best_excess() const { return best_excess_; }
  [[nodiscard]] std::uint64_t work() const { return work_; }

 private:
  struct Member {
    std::uint32_t node = 0;
    const IntraCore::Side* parent = nullptr;  // as the parent sees the edge; none: a root
    std::uint32_t parent_node = 0;
    std::size_t first = 0;  // of unary_
  };
  struct Outcome {
    double cost = 0, excess = 0, worst = 0;
    std::int64_t rows_over = 0;  // whether there is any excess; sums of shares are not exact
    std::uint32_t worst_row = 0;
  };

  void grow(std::size_t size);
  void visit(std::uint32_t node, const IntraCore::Side* parent, std::uint32_t parent_node);
  void solve(const RowPrices& prices, double temperature);
  Outcome outcome();
  void accept(const Outcome& outcome);
  void try_move(double temperature, double tolerance);
  [[nodiscard]] double share(std::size_t row, double used) const {
    return std::max(0.0, used - core_.capacity[row]) / (core_.capacity[row] + 1);
  }

  const IntraCore& core_;
  Rng rng_;
  RowPrices prices_;
  std::vector<std::uint32_t> choice_, best_, proposed_;
  std::vector<double> used_, changes_, unary_;
  std::int64_t rows_over_ = 0;
  double cost_ = 0, excess_ = 0, best_cost_ = 0, best_excess_ = 0;
  std::vector<Member> members_;
  std::vector<std::uint32_t> member_of_, degree_in_;  // by node
  std::vector<std::pair<std::uint32_t, const IntraCore::Side*>> frontier_;
  std::uint64_t work_ = 0;
};

}  // namespace pipesim
