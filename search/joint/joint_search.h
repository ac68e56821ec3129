#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search/joint/joint_moves.h"
#include "search/search.h"

namespace pipesim {

struct JointOutcome {
  ScoredJointPlan best;   ///< no worse than the best start
  std::size_t start = 0;  ///< number of the start that it came from
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  std::array<std::int64_t, kJointMoveKinds> improved{};  ///< by kind: how often the best became better
  std::vector<SearchImprovement> history;
};

/// Markov chain Monte Carlo over joint plans: what planners found is changed in every way that joint_moves.h
/// knows, and each plan is simulated in full. Chains of simulated annealing go on from the best starts in
/// turn; after each round the worse half of them is dropped and chains get twice as long (successive
/// halving). With a budget in proposals alone the seed decides the outcome. A plan that does not fit counts
/// as in mcmc.h, and is the best only while none fits.
///
/// InternalError without a start that is legal.
JointOutcome search_jointly(JointEvaluator& evaluator, const JointMoves& moves,
                            const std::vector<JointPlan>& starts, const SearchBudget& budget,
                            std::uint64_t seed, const ProgressCallback& progress);

}  // namespace pipesim
