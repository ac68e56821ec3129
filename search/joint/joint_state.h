#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search/annealing/annealing_state.h"
#include "search/joint/joint_moves.h"
#include "search/joint/joint_plan.h"
#include "sim/base/rng.h"

namespace pipesim {

/// By JointMoveKind.
using JointMoveCounts = std::array<std::int64_t, kJointMoveKinds>;

/// One chain of a round.
struct JointChain {
  std::size_t start = 0;        ///< number of the start that it came from
  Scored<JointPlan> now, best;  ///< the best of the round
  Rng rng{0};
  bool operator==(const JointChain&) const = default;
};

/// The state from which search_jointly() continues.
struct JointState : AnnealingState {
  std::int64_t round = 0;
  std::int64_t length = 0, done = 0;  ///< proposals of each chain in the round: all, and done
  double least = 0;                   ///< cost of the best when the round began, nanoseconds
  std::vector<JointChain> chains;
  Scored<JointPlan> best;      ///< no worse than the best start
  std::size_t start = 0;       ///< number of the start that it came from
  JointMoveCounts improved{};  ///< how often the best of a chain became better than all best before its part
  bool operator==(const JointState&) const = default;
};

}  // namespace pipesim
