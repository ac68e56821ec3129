#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/operator_graph.h"
#include "sim/base/shared_list.h"
#include "taskgraph/moving/communication_plan.h"
#include "taskgraph/moving/expert_loads.h"
#include "taskgraph/moving/layout.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// Layout of a use under a config (operator algebra, section 3). It has an entry for every shard whose box is
/// not empty.
Layout required_layout(const Operator& op, const TensorUse& use,
                       const ParallelConfig& config);  ///< input, weight
Layout produced_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config);  ///< output
/// Gradient that an output's producer needs. It is complete, and copied along every factor that the output
/// lacks.
Layout required_gradient_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config);
/// Gradient that a consumer computes for its input or weight. Its addends come from split factors that the
/// tensor lacks as Summed, and from split factors whose windows overlap.
Layout gradient_layout(const Operator& op, const TensorUse& use, const ParallelConfig& config);

/// Communication inside a pass.
struct InnerExchange {
  enum class Content : std::uint8_t {
    Statistic,    ///< all-reduced among a group of shards
    KeyBlock,     ///< keys and values, sent to the next member of a ring
    KeyGradients  ///< the sum of their gradients so far, sent there too
  };
  Content content = Content::Statistic;
  std::int32_t step = 0;  ///< of a statistic: the stage before it; in a ring it numbers what a member sends
  std::vector<std::int32_t> shards;  ///< at least two, ascending; of a message: from, to
  PricedTask task;
};

/// Tasks of a pass are numbered: stage · shards + shard, then the exchanges. One waits for another.
struct InnerWait {
  std::int32_t before = 0, after = 0;
  auto operator<=>(const InnerWait&) const = default;
};

/// Work of one pass on every shard. Its first stage begins when the inputs are there, its last makes results.
struct PassWork {
  bool present = false;
  std::vector<InnerExchange> exchanges;  ///< in the order of their steps
  std::vector<InnerWait> waits;
  SharedList<Nanoseconds> durations;  ///< [stage · shards + shard]
  std::size_t num_stages = 1;
  [[nodiscard]] std::size_t stages() const { return num_stages; }
};

/// Scratch tensors of equal size, all there while a pass runs.
struct Scratch {
  Bytes tensor;
  std::int64_t count = 0;
  /// So much of the last tensor is not counted, since the results of the pass take its place.
  Bytes given_up;
  [[nodiscard]] Bytes bytes() const { return count * tensor - given_up; }
};

/// Bytes that one shard allocates, by purpose.
struct ShardMemory {
  Bytes outputs;     ///< its boxes of the outputs
  Bytes saved;       ///< kept from forward to backward beside tensors (row statistics, arg indices)
  Bytes input_copy;  ///< of its inputs, in types in which backward reads them (TensorUse::saved_as)
  /// Copies of its results' gradients, in the type in which its products multiply (Casts::gradient). Where
  /// both gradients are computed, the pass of the inputs' makes it and that of the weights' reads it.
  Bytes gradient_copy;
  Bytes input_gradients;  ///< the gradients that it computes for its inputs, before they are moved or added
  Bytes forward_blocks, backward_blocks;      ///< what arrives and leaves in a ring, while the pass runs
  Bytes unpacked;                             ///< copies of its packed weights, in each pass
  Scratch forward_scratch, backward_scratch;  ///< while a pass runs, segment after segment
  /// Scratch memory of a forward pass, and of each backward pass.
  [[nodiscard]] Bytes in_forward() const { return unpacked + forward_scratch.bytes(); }
  [[nodiscard]] Bytes in_backward() const { return unpacked + backward_scratch.bytes(); }
};

struct BoundOperator;
/// The part of a shard's ShardMemory::input_copy that is of this use.
Bytes copy_of_input(const BoundOperator& bound, std::size_t use, std::size_t shard);

/// An operator under one config: everything about it that does not depend on its neighbours.
struct BoundOperator {
  const Operator* op = nullptr;
  const BoundOperator* first_alike = nullptr;  ///< another operator's, equal but for `op`; null: none
  ParallelConfig config;
  std::vector<LayoutId>
      data_layout;  ///< per use: required (inputs, weights) or produced (outputs); State: invalid
  std::vector<LayoutId>
      gradient_layout;  ///< per use: gradient (inputs, weights) or required gradient (outputs)
  PassWork forward, backward_input, backward_weight;
  SharedList<LaneUse> loads;                 ///< how long its tasks hold each lane, summed
  SharedList<ShardMemory> memory;            ///< per shard
  Communicators communicators;               ///< that its exchanges need
  SharedList<std::int32_t> shard_of_device;  ///< −1 where the device has no shard

  [[nodiscard]] Bytes bytes() const;  ///< of memory, without what first_alike has as well
};

/// A strategy whose configs are bound: one pointer per operator, into BoundOperators.
using BoundStrategy = std::vector<const BoundOperator*>;

/// Layout of a use: of its data, and of its gradient.
inline LayoutId data_layout(UseRef use, const BoundStrategy& strategy) {
  return strategy[use.op.index()]->data_layout[static_cast<std::size_t>(use.use)];
}
inline LayoutId gradient_layout(UseRef use, const BoundStrategy& strategy) {
  return strategy[use.op.index()]->gradient_layout[static_cast<std::size_t>(use.use)];
}

/// Whether the use's data is saved, and the pass of the inputs' gradients does not read it.
inline bool reads_for_weights_alone(const BoundOperator& bound, std::size_t use) {
  return bound.op->uses[use].saved_for_weights && bound.backward_weight.present;
}

/// Takes the times of the same operator under the same config, with other prices. False where its tasks hold
/// other lanes; then some times may have changed.
bool take_times(BoundOperator& bound, const BoundOperator& from);
/// Prices the operator anew, in place, but not the operators that are alike. False as above.
bool reprice(BoundOperator& bound, const OperatorGraph& graph, OperatorId op, CommunicationPrices& prices,
             const ExpertLoads& loads, DataType sums = DataType::Float32);

/// The config must be legal. Every shard has the tokens of the fullest, see ExpertLoads. `sums`: the type in
/// which weights' gradients accumulate.
BoundOperator bind(const OperatorGraph& graph, OperatorId op, const ParallelConfig& config,
                   CommunicationPrices& prices, LayoutTable& layouts, const ExpertLoads& loads = {},
                   DataType sums = DataType::Float32);

/// Divides the bytes of a shard's outputs among them, in the order of their uses.
std::vector<Bytes> bytes_of_outputs(const OperatorGraph& graph, const BoundOperator& maker,
                                    std::size_t shard);

}  // namespace pipesim
