#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "search/mcmc/chain.h"
#include "search/mcmc/cycle.h"
#include "search/search.h"

namespace pipesim {

/// What cycles of one grain leave to the next one.
struct GrainState {
  std::int64_t cycles = 0;
  double effort = 0;  ///< draws, weighted by what they cost
  double heat = 1;    ///< of the next cycle, see Cooling
  MoveRates rates{};
  MoveCounts counts;                           ///< while the rates adapt
  ScoredState best;                            ///< met in such a cycle; without configs while there was none
  std::vector<std::vector<std::size_t>> last;  ///< configs of the better half of the chains at its end
  bool operator==(const GrainState&) const = default;
};

/// All that mcmc() goes on from between two rounds. Equal states go on equally on any number of threads.
struct SearchState {
  std::uint64_t seed = 1;
  std::int64_t rounds = 0, proposals = 0, accepted = 0;
  double seconds = 0;  ///< wall time spent so far
  Rng rng{0};          ///< of exchanges and restarts
  Cost cost;
  Cycle cycle;
  std::array<GrainState, kGrains> grains;  ///< by Grain
  std::vector<ChainState> chains;
  std::vector<std::size_t> rung;  ///< by chain: which temperature it has, 0 is the coldest
  ScoredState best;               ///< of all that fit; without configs while there was none
  std::string found_by;
  std::vector<SearchImprovement> history;
  bool operator==(const SearchState&) const = default;
};

}  // namespace pipesim
