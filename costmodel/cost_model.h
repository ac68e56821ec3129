#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/collectives.h"
#include "costmodel/ratio_curve.h"
#include "costmodel/runtime/runtime.h"
#include "costmodel/shard_kernel.h"
#include "costmodel/training/optimizer.h"
#include "models/box.h"
#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

class CalibratedTimes;
class LinkBundles;
struct Calibration;

/// Permanent bytes on one device for one weight shard.
struct WeightMemory {
  Bytes weights, gradients, optimizer_state;
  bool operator==(const WeightMemory&) const = default;
};

/// Bytes of the copies of gradients that a runtime makes for a step of so many elements; 0 where the
/// gradients, or the main weights, have another type. `divided`: copies of the weights divide the state.
Bytes widened_gradients(std::int64_t elements, DataType weight, DataType gradient, const Optimizer& optimizer,
                        StepGradients copies, bool divided);
/// The same for one element with a gradient of 16 bits.
std::int64_t bytes_in_step(StepGradients copies, bool divided);

/// What a step of PyTorch's Adam or Adafactor holds beside the state while it updates so many elements of a
/// weight; 0 of other optimizers, whose steps work in place, and of fused ones. Adam takes the square roots
/// of second moments, and tensor by tensor the same once more, divided. Adafactor spreads what rows and
/// columns say over a tensor, and is never foreach by itself.
Bytes optimizer_intermediates(std::int64_t elements, const WeightShape& shape, const Optimizer& optimizer,
                              OptimizerKernel kernel);
/// Whether such a step holds this of all that it updates at once, and not of the largest tensor alone: of
/// lists, and where the runtime joins all in one tensor (StepGradients::Flat).
bool holds_intermediates_of_all(const Optimizer& optimizer, const Runtime& runtime);

/// Weights that one step of the optimizer changes on a device, all of one type.
struct UpdatedWeights {
  Optimizer optimizer;
  DataType type = DataType::Float32;
  std::int64_t elements = 0;
  Bytes state;       ///< read and written
  double flops = 0;  ///< of Muon's products, at the rate of bfloat16

  /// With so many elements of weights that are no matrices of layers.
  UpdatedWeights(const Optimizer& o, DataType t, std::int64_t n = 0) : optimizer(o), type(t) { add(n, t); }
  /// Adds a part of a weight with so many elements, ≥ 0.
  void add(std::int64_t part, const WeightShape& shape);
};

/// A weight's shape for its optimizer, where the weight is kept in another type.
WeightShape shape_of_weight(const OperatorGraph& graph, TensorId weight, DataType kept);

/// Time of an update by the analytic model: memory bounds it, and Muon's products come on top.
Seconds analytic_update_time(const UpdatedWeights& weights, const DeviceKind& kind);

/// Matrix rate of a kind for an element type. A type without a rate of its own uses that of the next type
/// that can compute it: bfloat16 → float16 → float32, float16 → bfloat16 → float32, any other → float32; then
/// the kind's slowest rate. InputError for float8 where the kind has no rate of it.
FlopsPerSecond peak_rate(const DeviceKind& kind, DataType type);
/// The type whose rate peak_rate() returns.
DataType rate_type(const DeviceKind& kind, DataType type);

/// Predicts times on one topology. Const members are pure and safe to call from several threads; nothing is
/// cached here that a caller could observe.
///
/// With a calibration there are three cases. A key that was measured takes its median. Another size of the
/// same kind takes the analytic time × the ratio of measured to analytic time, interpolated between the
/// measured sizes (RatioCurve). All other keys take the analytic time. All but the first case then get the
/// correction of their class. Profiles that operators bring along are not changed.
class CostModel {
 public:
  /// `calibration` is read only in the constructor; null: everything is analytic. Its constants are in the
  /// figures of topology() and runtime() then. InputError as with_constants().
  explicit CostModel(const Topology& topology, const Calibration* calibration = nullptr,
                     Runtime runtime = {});
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] const Runtime& runtime() const { return runtime_; }

  /// Time of one pass of one shard on a device: launch overhead + max(FLOPs at the achievable rate, bytes at
  /// the achievable memory bandwidth). An operator with measured times takes these instead, scaled by the
  /// shard's share of the work. `ranges`: one per factor. BackwardInput includes the weight gradients of
  /// operators without a weight pass. A pass that runs no kernel (gradients that nothing needs, a reshape, an
  /// empty shard) takes 0, or the time that a backend was measured to spend on it. InternalError for
  /// Pass::Update (see update_time) and for a wrong number of ranges. Under a load that is not even, the time
  /// grows as by the analytic model. `sums`: the type in which weights' gradients accumulate.
  [[nodiscard]] Seconds operator_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                      std::span<const Range> ranges, DeviceId device,
                                      const TokenLoad& load = {}, DataType sums = DataType::Float32) const;
  /// Time of the optimizer's step over these weights.
  [[nodiscard]] Seconds update_time(const UpdatedWeights& weights, DeviceId device) const;

  /// operator_time and update_time, with the source of each. For reports; a search does not call them.
  [[nodiscard]] Estimate operator_estimate(const OperatorGraph& graph, const Operator& op, Pass pass,
                                           std::span<const Range> ranges, DeviceId device,
                                           DataType sums = DataType::Float32) const;
  [[nodiscard]] Estimate update_estimate(const UpdatedWeights& weights, DeviceId device) const;
  /// Whether passes and updates certainly take as long in this other model of the same devices.
  [[nodiscard]] bool computes_like(const CostModel& other) const {
    return !calibrated() && !other.calibrated() && runtime_ == other.runtime_ &&
           topology_.parts().kinds == other.topology_.parts().kinds;
  }
  /// Whether measurements or corrections are used.
  [[nodiscard]] bool calibrated() const { return times_ != nullptr; }
  /// The kind of device, or backend, whose measurements are used for this device. Empty: there are none.
  [[nodiscard]] std::string_view calibrated_place(DeviceId device) const;
  /// The number of other devices in its node. Durations are looked up with this
  /// CalibrationKey::busy_neighbours.
  [[nodiscard]] std::int32_t busy_neighbours(DeviceId device) const;
  /// A line for each kind of device that the calibration lacks.
  [[nodiscard]] std::vector<std::string> calibration_warnings() const;

  /// The best algorithm for the group (≥ 2 distinct devices; Broadcast: the root first, Reduce: the
  /// destination first, Send: exactly source and destination). Throws InternalError on other groups or
  /// negative sizes.
  [[nodiscard]] CollectiveTime collective_time(Collective kind, std::span<const DeviceId> group,
                                               Bytes size) const;
  /// The same with the size left open: collective_time(k, g, s) = plan_collective(k, g).at(s). For callers
  /// that ask about one group often.
  [[nodiscard]] CollectivePlan plan_collective(Collective kind, std::span<const DeviceId> group) const;

  /// Plans an all-gather of data that only one member of the group has, whichever it is: a broadcast along
  /// the rings, the only way that NCCL has, in its bandwidth protocol. Chunks stream through n − 1 hops, and
  /// each takes κ beside its bytes on every hop. With T for all bytes on the slowest hop, F = Σ T and K = Σ κ
  /// over the hops, c chunks take T + cκ + F/c + K; the best c gives T + K + 2√(κF). Not calibrated.
  [[nodiscard]] CollectivePlan plan_broadcast_gather(std::span<const DeviceId> group) const;

  /// Plans an all-to-all of tokens and their experts that takes this route: a token crosses once to each node
  /// of its experts, from a device to the one of equal position, which hands it on (DeepSeek-AI,
  /// arXiv:2412.19437, section 3.2.2); results come back the same way, summed before they cross. Both links
  /// stream at once. The size is that of all rows, a row for each expert of a token. Where the group is on
  /// one node or on unequal ones it is plan_collective() of an all-to-all. Not calibrated.
  [[nodiscard]] CollectivePlan plan_token_exchange(std::span<const DeviceId> group,
                                                   const NodeRoute& route) const;

  /// The least possible time of the pass on this kind of device: full efficiency, no launch overhead. For
  /// lower bounds, which hold only without a calibration.
  [[nodiscard]] Seconds ideal_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                   std::span<const Range> ranges, const DeviceKind& kind) const;

  /// Bytes of a part of a weight, its gradients and its state.
  [[nodiscard]] static WeightMemory weight_memory(std::int64_t elements, const WeightShape& shape,
                                                  DataType gradient_type, const Optimizer& optimizer);

 private:
  friend class CollectivePlanner;
  [[nodiscard]] Seconds idle_pass_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                       std::span<const Range> ranges, DeviceId device) const;

  [[nodiscard]] Seconds analytic_time(const ShardKernel& kernel, DeviceId device) const;
  [[nodiscard]] CollectivePlan plan_of(std::vector<CollectiveAlgorithm> algorithms,
                                       std::span<const DeviceId> group) const;

  std::shared_ptr<const Topology> with_constants_;  ///< none without constants of the cluster
  const Topology& topology_;
  Runtime runtime_;
  double latency_factor_ = 1;
  std::shared_ptr<const LinkBundles> bundles_;
  std::shared_ptr<const CalibratedTimes> times_;  ///< none without a calibration
};

/// Makes the plans of CostModel::plan_collective() and plan_broadcast_gather() for many collectives in a row:
/// one on the same devices as the one before shares its routes and rings. Not thread-safe. The costs must
/// outlive it.
class CollectivePlanner {
 public:
  explicit CollectivePlanner(const CostModel& costs);
  ~CollectivePlanner();
  CollectivePlanner(CollectivePlanner&&) noexcept;
  CollectivePlanner(const CollectivePlanner&) = delete;
  CollectivePlanner& operator=(CollectivePlanner&&) = delete;
  CollectivePlanner& operator=(const CollectivePlanner&) = delete;

  [[nodiscard]] CollectivePlan plan(Collective kind, std::span<const DeviceId> group);
  [[nodiscard]] CollectivePlan plan_broadcast_gather(std::span<const DeviceId> group);
  [[nodiscard]] CollectivePlan plan_token_exchange(std::span<const DeviceId> group, const NodeRoute& route);

 private:
  class Group;
  Group& group_of(std::span<const DeviceId> members);

  const CostModel& costs_;
  std::unique_ptr<Group> last_;
};

}  // namespace pipesim
