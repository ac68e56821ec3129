#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/annealing/annealer.h"
#include "search/joint/joint_evaluator.h"
#include "search/joint/joint_state.h"

namespace pipesim {

struct JointOptions : AnnealingOptions {
  /// Goes on from here; the seed is the state's. It must come from the same evaluator, moves and starts.
  std::optional<JointState> resume;
  /// Called between parts of rounds, see Annealer::keep_state().
  std::function<void(const JointState&, bool last)> keep;
};

struct JointOutcome {
  ScoredJointPlan best;   ///< no worse than the best start
  std::size_t start = 0;  ///< number of the start that it came from
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  JointMoveCounts improved{};  ///< see JointState
  std::vector<SearchImprovement> history;
};

/// "boundary 2, replicas 1": kinds of moves that found a better plan, and how often; "" where none did.
std::string improving_moves(const JointOutcome& outcome);

/// Markov chain Monte Carlo over joint plans: what planners found is changed in every way that joint_moves.h
/// knows, and plans are judged by the simulator. In a round chains of simulated annealing go on from the
/// best starts side by side; then those that found least are dropped and chains get twice as long (successive
/// halving). When few are left, several go on from each of them (after Aldous and Vazirani, "Go with the
/// winners", 1994). A plan that does not fit counts as in mcmc.h, and is the best only while none fits.
///
/// With a budget in proposals alone the outcome depends on the seed, never on the threads, nor on whether it
/// was resumed. Where the thread's deadline (sim/base/deadline.h) passes, what was found until then is the
/// outcome; OutOfTime where no start could be scored. InternalError without a start that is legal.
JointOutcome search_jointly(JointEvaluator& evaluator, const JointMoves& moves,
                            const std::vector<JointPlan>& starts, const JointOptions& options,
                            const ProgressCallback& progress);

}  // namespace pipesim
