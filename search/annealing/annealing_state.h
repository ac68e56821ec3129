#pragma once

#include <cstdint>
#include <vector>

#include "search/annealing/cost.h"
#include "search/search.h"

namespace pipesim {

/// What the state of every annealer has. An annealer goes on from its state: equal ones go on equally on any
/// number of threads.
struct AnnealingState {
  std::uint64_t seed = 1;
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;  ///< wall time spent so far
  Cost cost;
  std::vector<SearchImprovement> history;
  bool operator==(const AnnealingState&) const = default;
};

}  // namespace pipesim
