#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "search/candidates.h"
#include "search/joint/joint_plan.h"
#include "sim/base/rng.h"

namespace pipesim {

/// What a proposal of the joint search changes.
enum class JointMoveKind : std::uint8_t {
  Boundary,      ///< operators move between the end of a stage and the next stage
  Merge,         ///< two stages become one, on the devices of both
  Split,         ///< a stage becomes two, each on a part of its devices
  Replicas,      ///< devices go from a stage to its neighbour
  Tensor,        ///< doubles or halves the tensor-parallel degree of a stage
  Schedule,      ///< another schedule
  Recompute,     ///< other operators run again before backward, or none, or those of some layers
  Microbatches,  ///< doubles or halves their number; the samples stay the same
  Config,        ///< another split of an operator, alone or with its repeats, on its stage's devices
  Plain,         ///< an operator, alone or with its repeats, gets the split of its stage again
  Exchange       ///< two stages with as many devices exchange them
};
constexpr std::size_t kJointMoveKinds = 11;
std::string_view name_of(JointMoveKind kind);  ///< "boundary", "merge", …

/// Draws changes of joint plans.
class JointMoves {
 public:
  /// `candidates`: of the model with any number of samples; must outlive it.
  JointMoves(const CandidateSet& candidates, std::int32_t most_microbatches);
  /// Adds the splits for plans whose experts take tokens in so many groups, where operators have a factor
  /// more. `candidates` must outlive it. Without this, such plans get no other splits.
  void add(std::int64_t token_groups, const CandidateSet& candidates) {
    with_groups_.emplace(token_groups, candidates);
  }

  /// Returns a changed plan, which may be illegal; nothing when the draw leads nowhere.
  [[nodiscard]] std::optional<JointPlan> propose(const JointPlan& plan, JointMoveKind kind, Rng& rng) const;
  [[nodiscard]] JointMoveKind draw(Rng& rng) const;

 private:
  [[nodiscard]] std::span<const Operator> operators() const { return candidates_.graph().operators(); }
  bool move_boundary(JointPlan& plan, Rng& rng) const;
  static bool merge(JointPlan& plan, Rng& rng);
  bool split(JointPlan& plan, Rng& rng) const;
  static bool move_replicas(JointPlan& plan, Rng& rng);
  static bool change_tensor(JointPlan& plan, Rng& rng);
  static bool change_schedule(JointPlan& plan, Rng& rng);
  bool change_recompute(JointPlan& plan, Rng& rng) const;
  bool change_microbatches(JointPlan& plan, Rng& rng) const;
  bool change_config(JointPlan& plan, Rng& rng) const;
  bool make_plain(JointPlan& plan, Rng& rng) const;
  static bool exchange(JointPlan& plan, Rng& rng);
  [[nodiscard]] std::vector<std::int32_t> repeats(const JointPlan& plan, std::int32_t op, Rng& rng) const;

  const CandidateSet& candidates_;
  std::map<std::int64_t, const CandidateSet&> with_groups_;
  std::int32_t most_microbatches_;
  std::vector<std::vector<std::int32_t>> unit_of_;  // by operator: its repeats, itself among them
};

}  // namespace pipesim
