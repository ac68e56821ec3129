#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/recipe_planner/measuring/mesh_traffic.h"
#include "search/recipe_planner/measuring/model_parts.h"
#include "search/recipes/recipe.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Chains of the way back through a part, by recomputation.
struct BackwardChains {
  /// None and selective: from the start of the backward of what makes the exit to that of what makes the
  /// entry. Full: from the end of the backward of all parts behind on every device, to that of this part; the
  /// part runs forward again in between.
  std::array<Nanoseconds, kMostRecomputes> all{};
  /// From the start of the backward of what makes the exit to the end of the backward on every device.
  std::array<Nanoseconds, kMostRecomputes> first{};
};

/// Lower bounds of what one microbatch takes in a part of the model, on the devices of a pipeline's group.
///
/// Chains. Say that no device of the group begins before a moment. Then none of them has made what the part
/// hands on before that moment + `forward`: the least, over the devices, of the longest chain of passes and
/// transfers that leads there from what comes in. Such bounds add up over parts. So do those of the way back.
///
/// Busy. The least, over the devices, of the time that passes take on them.
///
/// Host. The least, over the devices, of the time that their processes take to launch these passes. A process
/// begins a step with its device and ends before it (HostTasks).
struct PartCosts {
  Nanoseconds forward = 0;        ///< chain from what the part before makes, with its way here
  Nanoseconds forward_first = 0;  ///< the same where the part is the first of its stage
  BackwardChains backward;        ///< of inputs' gradients
  BackwardChains whole_backward;  ///< where weights' gradients are in the same step
  Nanoseconds busy_forward = 0, busy_input = 0, busy_weight = 0;
  std::array<Nanoseconds, kMostRecomputes> busy_again{};
  Nanoseconds host_forward = 0, host_input = 0, host_weight = 0;
  std::array<Nanoseconds, kMostRecomputes> host_again{};
  /// Least bytes, over the devices, that a microbatch keeps until its backward begins: what the part makes
  /// for itself, and what the part before made for it on the same devices.
  std::array<Bytes, kMostRecomputes> kept{}, kept_entry{};
  /// Least bytes that are there from the end of that backward until the pass of weight gradients begins,
  /// where that pass is a step of its own.
  Bytes kept_for_weights;
  /// Bytes that were made again and are there when the last of them was; 0 where something is not proven.
  std::array<Bytes, kMostRecomputes> made_again{};
  /// Elements of weights, by what copies of them could divide.
  struct Weights {
    std::int64_t elements = 0;  ///< on the device with fewest
    double mean_elements = 0;   ///< on a device of the group, on average
    std::int64_t copies = 1;    ///< at most so many of the devices that were measured hold the same
    WeightShape shape;          ///< in the weight's own type
    double frozen_bits = 0;     ///< of an element of a frozen weight; 0: it is trained
    bool in_backward = true;
  };
  std::vector<Weights> weights;  ///< that the part is the first to use
};

/// Costs of all parts of a model under a mesh: a recipe without stages, schedule, recomputation and sharding.
struct RecipeMeshCosts {
  PartCosts front, behind;
  std::vector<PartCosts> of_class;
  Nanoseconds host_step = 0;  ///< of each forward step and each backward step of gradients of inputs
};

/// Costs of the devices on which one copy of the model runs, by group of the pipeline; or of all groups,
/// where there is one.
using CopyCosts = std::vector<const RecipeMeshCosts*>;

/// Costs of a mesh by class of its groups, see classes_by_kinds().
struct MeshCosts {
  std::vector<RecipeMeshCosts> of_class;  ///< the least of the groups of a class
  std::vector<std::size_t> class_of;      ///< by group; empty: all are of one class

  /// Returns the copies that differ. `times`: so many consecutive groups hold copies of the same stage.
  [[nodiscard]] std::vector<CopyCosts> copies(std::int64_t times) const;
};

/// A mesh with as few copies of the model as hold all experts, one behind the other. All its copies do the
/// same on samples of their own, each on neighbouring devices: what one takes, the other mesh takes at least,
/// but for what its copies send each other.
struct FewestCopies {
  Recipe mesh;
  std::int64_t times = 1;  ///< so many times the copies
};
FewestCopies with_fewest_copies(const Recipe& mesh);

class MeshTables;

/// Measures meshes of a model. What they share is computed once. Not thread-safe.
class MeshMeter {
 public:
  /// `model`: with the batch dp · mbs of all meshes that are measured. Its parts are `parts`, which may be
  /// those of the same model with another batch. All must outlive it. `options`: of the gradients.
  MeshMeter(const RecipeModel& model, const ModelParts& parts, const CostModel& costs, PlanOptions options);
  ~MeshMeter();
  MeshMeter(const MeshMeter&) = delete;
  MeshMeter& operator=(const MeshMeter&) = delete;

  /// `mesh`: legal. `groups`: the pipeline's groups that may differ (distinct_groups()); costs are the least
  /// of them.
  RecipeMeshCosts costs(const Recipe& mesh, const std::vector<std::int64_t>& groups);
  /// Measures only how long devices are busy, and no chains or bytes. The figures are no more than those of
  /// costs(), and take a tenth of its time.
  RecipeMeshCosts busy(const Recipe& mesh, const std::vector<std::int64_t>& groups);
  HeldByParts transfers(const Recipe& mesh, std::int64_t group);
  /// See measure_stage_transfer().
  StageTransfer stage_transfer(const Recipe& mesh, std::int64_t group, std::int64_t other);
  /// Measures weights; the result is the same whatever the number of samples in a microbatch. `sharding`: any
  /// that divides the state of weights as it is to be. `both_ways`: with the group as far from the other end,
  /// see StageGroups.
  HeldByPartsWeights weights(const Recipe& mesh, const StateSharding& sharding, std::int64_t group,
                             bool both_ways);

  /// bytes() is the memory of what is kept to measure further meshes faster; forget() frees it.
  [[nodiscard]] Bytes bytes() const;
  void forget();

 private:
  template <class Visit>
  void for_each_part(Visit visit) const;
  template <class Measure>
  RecipeMeshCosts least_of_groups(const Recipe& mesh, const std::vector<std::int64_t>& groups,
                                  Measure measure);

  std::unique_ptr<MeshTables> tables_;
  const ModelParts& parts_;
};

/// Returns permanent bytes that at least one device of the group holds under this sharding, where there are
/// `times` the copies that were measured.
Bytes least_permanent(const PartCosts& part, std::int64_t times, const StateSharding& sharding,
                      DataType gradient_type, const Optimizer& optimizer);
/// The least that a device keeps from forward to backward of the part's weights that it gathered, where these
/// are not gathered again.
Bytes least_gathered(const PartCosts& part, std::int64_t times, const StateSharding& sharding);

/// Returns a time that every recipe of this mesh takes at least: what all microbatches take in all parts,
/// divided as evenly as the groups are fast.
Nanoseconds least_time(const CopyCosts& copy, const ModelParts& parts, std::int64_t groups,
                       std::int64_t microbatches);

}  // namespace pipesim
