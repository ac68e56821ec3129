#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "search/mcmc/chain.h"
#include "search/mcmc/cycle.h"

namespace pipesim {

/// What cycles of one grain leave to the next one.
struct GrainState {
  std::int64_t cycles = 0;
  double effort = 0;  ///< draws, weighted by what they cost
  double heat = 1;    ///< of the next cycle, see Cooling
  MoveRates rates{};
  MoveCounts counts;                           ///< while the rates adapt
  ScoredConfigs best;                          ///< met in such a cycle; without configs while there was none
  std::vector<std::vector<std::size_t>> last;  ///< configs of the better half of the chains at its end
  bool operator==(const GrainState&) const = default;
};

/// All that mcmc() goes on from between two rounds.
struct SearchState : AnnealingState {
  std::int64_t rounds = 0;
  Rng rng{0};  ///< of exchanges and restarts
  Cycle cycle;
  std::array<GrainState, kGrains> grains;  ///< by Grain
  std::vector<ChainState> chains;
  std::vector<std::size_t> rung;  ///< by chain: which temperature it has, 0 is the coldest
  ScoredConfigs best;             ///< of all that fit; without configs while there was none
  std::string found_by;
  bool operator==(const SearchState&) const = default;
};

}  // namespace pipesim
