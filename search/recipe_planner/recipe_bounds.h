#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/space/recipe_space.h"
#include "search/recipe_planner/steps/schedule_shape.h"
#include "search/recipe_planner/steps/step_sequence.h"

namespace pipesim {

/// Lower bounds of a recipe: no simulation takes less.
struct RecipeBound {
  Nanoseconds time = 0;  ///< of an iteration
  Bytes memory;          ///< at the peak of some device
  bool operator==(const RecipeBound&) const = default;
};

/// A lower bound of the communicators that every device is in: that of sends between stages, and where each
/// stage has layers, those of the copies whose gradients are added up, of the tensor-parallel group, of the
/// parts of a sequence, and with sp of all devices that have the weights of norms.
inline constexpr std::int32_t kMostLeastCommunicators = 5;
std::int32_t least_communicators(const Recipe& mesh, const StageDivision& division);

/// Permanent bytes of parts under a sharding, with so many times the copies, see least_permanent(); and what
/// layers of a class keep of gathered weights, see least_gathered().
struct PermanentBytes {
  Bytes front, behind;
  std::vector<Bytes> of_class, gathered;
};
PermanentBytes permanent_bytes(const RecipeMeshCosts& costs, std::int64_t times,
                               const StateSharding& sharding, DataType gradient_type,
                               const Optimizer& optimizer);

/// Costs of the stages of a division under a mesh and a recomputation, on the devices of one copy of the
/// model: sums of costs of parts. What holds for one copy holds for the iteration, which ends with the last
/// of them.
///
/// Time. The steps of a group of devices follow one another, and each takes at least the longest chain
/// through it, as long as its devices are busy, and as long as their hosts launch it; two steps beside each
/// other take as long as both keep the devices busy, as the longer chain, or as the host of either. The
/// group's first step waits for the stages before; after its last backward the stages before have one to do.
/// So for every group
///   T ≥ Σ_{r<first} F_r + Σ steps + Σ_{r<last} B_r
/// with the stages of its first step and of its last backward; where steps of weight gradients alone come
/// behind that, these or the last sum, whichever is longer.
///
/// A closer bound follows every step (time_of_steps()): it begins when the one before on its group has ended
/// and the stage that hands it its data has, by the chains; with traffic, the data must also have come over.
/// Two steps beside each other begin and hand on their results together. The gradients of a stage's weights
/// are synchronised, and weights gathered, when its last backward has begun, or behind the group's steps: a
/// lane does so for one stage after the other.
///
/// What collectives take from the compute of a device is not part of a step: it may do so while the device
/// waits for its next one. It counts in the sum of all that a device computes.
///
/// Memory. When backward of the microbatch begins for which most are in flight, what all of them keep is
/// there, and weights, gradients and optimizer state always are. A little later, what the stage's last layer
/// made again is there instead of what it and the parts behind it kept.
class DividedCosts {
 public:
  /// `both_ways`: the schedule, where each stage lies on two groups.
  DividedCosts(const CopyCosts& copy, const ModelParts& parts, const StageDivision& division,
               std::int64_t groups, const Recompute& recompute, bool both_ways = false);

  [[nodiscard]] Nanoseconds time(const ScheduleShape& shape, std::int64_t microbatches) const;
  /// Bounds the time by the links alone, since no two transfers hold a lane at once, and by the devices
  /// alone: each computes what its steps do and what it loses to collectives beside them
  /// (Runtime::interference).
  [[nodiscard]] Nanoseconds time(const MeshTraffic& traffic, const ScheduleShape& shape) const;
  /// `steps` are those of a pipeline with these stages. Without traffic, gradients count as reduced at once.
  [[nodiscard]] Nanoseconds time_of_steps(const StepSequence& steps) const;
  [[nodiscard]] Nanoseconds time_of_steps(const StepSequence& steps, const MeshTraffic& traffic,
                                          GradientReduction reduction) const;
  [[nodiscard]] Bytes memory(const ScheduleShape& shape, const PermanentBytes& permanent) const;

 private:
  struct Stage {
    Nanoseconds forward = 0;  // a step
    Nanoseconds forward_chain = 0, busy_forward = 0;
    Nanoseconds busy_input = 0, busy_weight = 0;                    // with what runs again
    Nanoseconds host_forward = 0, host_input = 0, host_weight = 0;  // the same of the hosts, by step
    // The least times of backward steps: on the devices or on the hosts, whichever is longer.
    [[nodiscard]] Nanoseconds least_whole() const {
      return std::max(busy_input + busy_weight, host_input + host_weight);
    }
    [[nodiscard]] Nanoseconds least_input() const { return std::max(busy_input, host_input); }
    [[nodiscard]] Nanoseconds least_weight() const { return std::max(busy_weight, host_weight); }
    // Chains of backward: in all, and from when the gradient has come in from behind. What runs again first
    // may have done so before that.
    struct Backward {
      Nanoseconds chain = 0, drain = 0;
    };
    Backward input, whole;
    Nanoseconds again_of_last = 0;
    Bytes kept, kept_for_weights;  // of a microbatch
    Bytes while_again;  // of a microbatch when the last layer has run again, and nothing before it has
    bool first = false, last = false;  // has what is in front of the layers, or behind
    std::vector<std::int64_t> layers;  // by class
  };
  [[nodiscard]] Stage stage_of(const RecipeMeshCosts& costs, std::size_t number, std::size_t stages,
                               std::int64_t from, std::int64_t count) const;
  [[nodiscard]] Stage::Backward backward_of(const RecipeMeshCosts& costs, const Stage& stage,
                                            std::int64_t from, std::int64_t count,
                                            BackwardChains PartCosts::*chains) const;

  // Whether the group holds the stage as one of the way back, not as one in order.
  [[nodiscard]] bool is_mirrored(std::size_t stage, std::size_t group) const {
    return !mirrored_.empty() && stage != group;
  }
  [[nodiscard]] const Stage& stage(std::size_t number, std::size_t group) const {
    return (is_mirrored(number, group) ? mirrored_ : stages_)[number];
  }
  [[nodiscard]] const Stage& stage(const ScheduleShape::Steps& steps, std::size_t group) const {
    return stage(static_cast<std::size_t>(steps.stage), group);
  }
  [[nodiscard]] Nanoseconds work_of(const ScheduleShape::Group& group, std::size_t number) const;
  // Returns the sum of a figure of traffic over the parts of a stage.
  [[nodiscard]] Nanoseconds held(const Stage& stage, const MeshTraffic& traffic,
                                 Nanoseconds PartTraffic::*by) const;
  struct LastBackward;
  class FollowedSteps;
  [[nodiscard]] Nanoseconds end_of_reductions(const FollowedSteps& followed, const StepSequence& steps,
                                              const MeshTraffic& traffic) const;

  const ModelParts& parts_;
  std::int64_t groups_;
  std::size_t kind_;
  std::vector<Stage> stages_;
  std::vector<Stage> mirrored_;  // on the groups as far from the other end, where a schedule goes both ways
};

}  // namespace pipesim
