#pragma once

#include "models/operator_graph.h"
#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/moving/communication_prices.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// Ring attention (Liu et al., arXiv:2310.01889): the members of a ring divide queries, keys and values
/// alike. Each works on its own part of the keys first, then on the parts of the members before it, the
/// nearest first, which come from one member to the next while the block before is worked on. A member holds
/// two blocks beside its own, one that it reads and one that arrives.
///
/// Backward passes keys and values round again. Each member but the owner adds its share to the gradients of
/// a block and sends them on, so they follow the block round and end at their owner. A member holds two
/// blocks of gradients that it makes or sends, and two that arrived or arrive. The time to add is part of the
/// stage that works on the block.
///
/// The stages of a pass: 0 begins; block i is worked on in stage 1 + i; where gradients go round, the last
/// one adds to the own gradients what came home.
struct RingStages {
  std::int32_t members = 1;
  bool gradients = false;

  [[nodiscard]] std::int32_t stages() const { return members + (gradients ? 2 : 1); }
  /// A block is worked on in this stage.
  [[nodiscard]] bool works(std::int32_t stage) const { return stage >= 1 && stage <= members; }
  [[nodiscard]] bool adds(std::int32_t stage) const { return gradients && stage == members + 1; }
  /// Steps of what each member sends: first its own block and those that it received, except for the last,
  /// which nobody after it needs; then gradients of each block but its own.
  [[nodiscard]] std::int32_t key_steps() const { return members - 1; }
  [[nodiscard]] std::int32_t steps() const { return (gradients ? 2 : 1) * key_steps(); }
  [[nodiscard]] bool sends_keys(std::int32_t step) const { return step < key_steps(); }
  /// The stage that works on the block that this step brings, or whose gradients it takes away.
  [[nodiscard]] std::int32_t stage_of(std::int32_t step) const { return 2 + step % key_steps(); }
};

/// Returns the stages of a pass under a config with a ring.
RingStages ring_stages(const OperatorGraph& graph, const Operator& op, Pass pass,
                       const ParallelConfig& config);

/// Whether a use passes round the ring.
bool rotates(const Operator& op, const TensorUse& use);

/// Bytes of one block: of keys and values, or of their gradients as far as anybody wants them.
struct RingBlock {
  Bytes values, gradients;
};
RingBlock ring_block(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config);

/// The exchanges of a pass under a config with a ring, and everything in it that waits.
void add_ring(const OperatorGraph& graph, const Operator& op, Pass pass, const ParallelConfig& config,
              CommunicationPrices& prices, PassWork& work);

}  // namespace pipesim
