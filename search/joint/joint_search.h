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
  /// By start, the algorithm that it came from. The best of each algorithm come before all others, so that
  /// starts that are nearly the same do not crowd out different ones. Empty: they come by their cost alone.
  std::vector<std::string> algorithms;
  /// The state to continue from, with its own seed. It must come from the same evaluator, moves and starts.
  std::optional<JointState> resume;
  /// Called between parts of rounds, see Annealer::keep_state().
  std::function<void(const JointState&, bool last)> keep;
};

struct JointOutcome {
  Scored<JointPlan> best;  ///< no worse than the best start
  std::size_t start = 0;   ///< number of the start that it came from
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  JointMoveCounts improved{};  ///< see JointState
  std::vector<SearchImprovement> history;
};

/// "boundary 2, replicas 1": kinds of moves that found a better plan, and how often; "" where none did.
std::string improving_moves(const JointOutcome& outcome);

/// Markov chain Monte Carlo over joint plans, scored by simulation. It begins with plans of planners and
/// changes them by all kinds of joint_moves.h. In a round, chains of simulated annealing continue side by
/// side from the best starts (see JointOptions::algorithms). Then the worse half of the chains is dropped,
/// and the others get twice as long (successive halving). When few are left, several continue from each of
/// them (after Aldous and Vazirani, "Go with the winners", 1994). The cost of a plan that does not fit is
/// that of mcmc.h; such a plan is the best only while none fits.
///
/// With a budget in proposals alone the outcome depends on the seed, never on the threads, nor on whether the
/// search was resumed. If the thread's deadline (sim/base/deadline.h) passes, the outcome is what was found
/// until then; OutOfTime when no start could be scored. InternalError when no start is legal.
JointOutcome search_jointly(JointEvaluator& evaluator, const JointMoves& moves,
                            const std::vector<JointPlan>& starts, const JointOptions& options,
                            const ProgressCallback& progress);

}  // namespace pipesim
