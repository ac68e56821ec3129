#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/chain.h"
#include "search/search.h"

namespace pipesim {

/// All that mcmc() goes on from between two rounds. Equal states go on equally on any number of threads.
struct SearchState {
  std::uint64_t seed = 1;
  std::int64_t rounds = 0, proposals = 0, accepted = 0;
  double seconds = 0;  ///< wall time spent so far
  Rng rng{0};          ///< of exchanges and restarts
  Cost cost;
  MoveRates rates{};
  std::vector<ChainState> chains;
  std::vector<std::size_t> rung;  ///< by chain: which temperature it has, 0 is the coldest
  ScoredState best;               ///< of all that fit; without configs while there was none
  std::string found_by;
  std::vector<SearchImprovement> history;
  bool operator==(const SearchState&) const = default;
};

}  // namespace pipesim
