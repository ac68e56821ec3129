#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/box.h"
#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// A lane that a transfer or collective keeps busy, and for how long.
struct LaneHold {
  LaneId lane;
  Seconds hold;
  bool operator==(const LaneHold&) const = default;
};

enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast, Reduce, Send };
std::string_view name_of(Collective kind);  ///< "all-reduce", …, "send"

/// Bytes that all links together must carry, as the operator algebra counts them. `size` is the whole buffer: what
/// every device holds (all-reduce, broadcast, reduce, input of reduce-scatter, output of all-gather), the sum over
/// all devices (all-to-all), or the message (send). n = group size.
///   all-reduce 2(n−1)·size, reduce-scatter, all-gather, broadcast, reduce (n−1)·size, all-to-all (n−1)/n·size, send size
std::int64_t bytes_on_links(Collective kind, std::int64_t n, Bytes size);

/// Time of one collective, and what it occupies meanwhile. duration = latency + the longest hold.
struct CollectiveTime {
  Seconds duration;
  Seconds latency;              ///< the part that does not grow with size
  std::vector<LaneHold> lanes;  ///< sorted by lane, distinct
  std::string_view algorithm;   ///< "ring", "tree", "hierarchical", "direct"
};

/// Permanent bytes on one device for one weight shard.
struct WeightMemory {
  Bytes weights, gradients, optimizer_state;
};

enum class Optimizer : std::uint8_t { Sgd, Momentum, Adam };
std::string_view name_of(Optimizer optimizer);         ///< "sgd", "momentum", "adam"
Optimizer parse_optimizer(std::string_view name);      ///< InputError with the allowed names

/// Predicts times on one topology. Const members are pure and safe to call from several threads; nothing is cached
/// here that a caller could observe.
class CostModel {
 public:
  explicit CostModel(const Topology& topology);
  [[nodiscard]] const Topology& topology() const { return topology_; }

  /// Time of one pass of one shard on a device: launch overhead + max(FLOPs at the achievable rate, bytes at the
  /// achievable memory bandwidth); measured times, where the operator has them, scaled by the shard's share instead.
  /// `ranges`: one per factor. BackwardInput includes the weight gradients of operators without a weight pass.
  [[nodiscard]] Seconds operator_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                      std::span<const Range> ranges, DeviceId device) const;
  /// Optimizer step over `elements` weights of this shard.
  [[nodiscard]] Seconds update_time(std::int64_t elements, DataType type, Optimizer optimizer, DeviceId device) const;

  /// The best algorithm for the group (≥ 2 distinct devices; Broadcast: the root first, Reduce: the destination
  /// first, Send: exactly source and destination). Throws InternalError on other groups or negative sizes.
  [[nodiscard]] CollectiveTime collective_time(Collective kind, std::span<const DeviceId> group, Bytes size) const;

  /// Least possible seconds of the pass on this kind of device at full efficiency, no launch overhead: for bounds.
  [[nodiscard]] Seconds ideal_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                   std::span<const Range> ranges, const DeviceKind& kind) const;

  [[nodiscard]] static WeightMemory weight_memory(std::int64_t elements, DataType type, DataType gradient_type,
                                                  Optimizer optimizer);

 private:
  const Topology& topology_;
};

}  // namespace pipesim
