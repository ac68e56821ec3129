#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/intra/tree_moves.h"

namespace pipesim {

/// Looks for good choices of a core. It moves forests, first at a high temperature and then at none, over and
/// over. Each run begins at the best choice or at one that came out of the bound.
class Improver {
 public:
  Improver(const IntraCore& core, Rng rng) : rng_(rng), moves_(core, rng.split(1)) {}

  struct Best {
    std::vector<std::uint32_t> choice;
    double cost = kNever, excess = kNever;

    [[nodiscard]] bool better_than(const Best& other) const {
      return std::pair(excess, cost) < std::pair(other.excess, other.cost);
    }
  };

  /// Runs until about `work` entries of tables were read. `best`: of all improvers; `start`: another choice
  /// to begin with, or none; `bound`: of the cost.
  void run(std::uint64_t work, const RowPrices& prices, const Best& best,
           const std::vector<std::uint32_t>* start, double bound);
  [[nodiscard]] Best best() const { return {moves_.best(), moves_.best_cost(), moves_.best_excess()}; }

 private:
  Rng rng_;
  TreeMoves moves_;
  std::uint64_t runs_ = 0, step_ = 0, steps_ = 0;
  double hottest_ = 0;
};

}  // namespace pipesim
