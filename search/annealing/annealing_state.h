#pragma once

#include <cstdint>
#include <vector>

#include "search/annealing/cost.h"
#include "search/search.h"

namespace pipesim {

/// The part of the state that all annealers have. A search continues from its state: equal states continue
/// equally, on any number of threads.
struct AnnealingState {
  std::uint64_t seed = 1;
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;  ///< wall time spent so far
  Cost cost;
  std::vector<SearchImprovement> history;
  bool operator==(const AnnealingState&) const = default;
};

}  // namespace pipesim
