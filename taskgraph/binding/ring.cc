#include "taskgraph/binding/ring.h"

#include "models/box.h"

namespace pipesim {
namespace {

// Adds the messages of a pass, and what waits for what.
class RingBuilder {
 public:
  RingBuilder(RingStages stages, std::int32_t shards, std::int32_t rings, PassWork& work)
      : stages_(stages), shards_(shards), rings_(rings), work_(work) {
    work.num_stages = static_cast<std::size_t>(stages.stages());
  }

  void add_stages() {
    for (std::int32_t stage = 0; stage + 1 < stages_.stages(); ++stage) {
      for (std::int32_t k = 0; k < shards_; ++k) wait(compute(stage, k), compute(stage + 1, k));
    }
  }

  // What the member number `from` of a ring sends to the next.
  void add_message(std::int32_t step, std::int32_t ring, std::int32_t from,
                   std::span<const std::int32_t> members, const PricedTask& task) {
    const std::int32_t to = (from + 1) % stages_.members;
    const auto shard = [&](std::int32_t member) { return members[static_cast<std::size_t>(member)]; };
    const bool keys = stages_.sends_keys(step);
    work_.exchanges.push_back({keys ? InnerExchange::Content::KeyBlock : InnerExchange::Content::KeyGradients,
                               step,
                               {shard(from), shard(to)},
                               task});
    const auto message = [&](std::int32_t at, std::int32_t member) {
      return stages_.stages() * shards_ + (at * rings_ + ring) * stages_.members + member;
    };
    const std::int32_t self = message(step, from), stage = stages_.stage_of(step);
    const std::int32_t nth = step % stages_.key_steps();  // of its content
    if (nth > 0) {  // passes on what came, and follows the message before
      wait(message(step - 1, (from + stages_.members - 1) % stages_.members), self);
      wait(message(step - 1, from), self);
    }
    // The receiver has two places, used in turn: what came before the last message must have been read.
    if (nth > 1) wait(message(step - 1, to), self);
    if (keys) {
      if (nth == 0) wait(compute(0, shard(from)), self), wait(compute(0, shard(to)), self);
      if (nth > 1) wait(compute(stage - 2, shard(to)), self);
      wait(self, compute(stage, shard(to)));
    } else {
      wait(compute(stage, shard(from)), self);
      // The same holds for what is sent.
      if (stages_.works(stage + 2)) wait(self, compute(stage + 2, shard(from)));
      if (stage == stages_.members) wait(self, compute(stage + 1, shard(to)));
    }
  }

 private:
  [[nodiscard]] std::int32_t compute(std::int32_t stage, std::int32_t shard) const {
    return stage * shards_ + shard;
  }
  void wait(std::int32_t before, std::int32_t after) {
    if (before != after) work_.waits.push_back({before, after});
  }

  RingStages stages_;
  std::int32_t shards_, rings_;
  PassWork& work_;
};

}  // namespace

bool rotates(const Operator& op, const TensorUse& use) {
  return use.role == Role::Input && op.rotation && use.follows(op.rotation->second);
}

RingBlock ring_block(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config) {
  std::vector<Range> ranges;
  ShardGrid(op, config).ranges(0, ranges);
  RingBlock block{Bytes(0), Bytes(0)};
  for (const TensorUse& use : op.uses) {
    if (!rotates(op, use)) continue;
    const Bytes bytes(box_of(use, op, ranges).elements() * bytes_per_element(graph.tensor(use.tensor).type));
    block.values += bytes;
    if (graph.wants_gradient(use.tensor)) block.gradients += bytes;
  }
  return block;
}

RingStages ring_stages(const OperatorGraph& graph, const Operator& op, Pass pass,
                       const ParallelConfig& config) {
  const bool gradients = pass == Pass::BackwardInput && ring_block(graph, op, config).gradients.value > 0;
  return {config.degrees[static_cast<std::size_t>(op.rotation->first)], gradients};
}

void add_ring(const OperatorGraph& graph, const Operator& op, Pass pass, const ParallelConfig& config,
              CommunicationPrices& prices, PassWork& work) {
  const RingStages stages = ring_stages(graph, op, pass, config);
  const RingBlock block = ring_block(graph, op, config);
  const std::vector<std::vector<std::int32_t>> rings =
      ShardGrid(op, config).groups_along(std::span(&op.rotation->first, 1));
  RingBuilder builder(stages, static_cast<std::int32_t>(config.devices.size()),
                      static_cast<std::int32_t>(rings.size()), work);
  builder.add_stages();
  std::vector<PricedTask> keys, gradients;  // by ring and member
  for (const std::vector<std::int32_t>& ring : rings) {
    for (std::size_t m = 0; m < ring.size(); ++m) {
      const DeviceId from = config.devices[static_cast<std::size_t>(ring[m])],
                     to = config.devices[static_cast<std::size_t>(ring[(m + 1) % ring.size()])];
      keys.push_back(priced_task(Collective::Send, {from, to}, block.values, prices));
      if (stages.gradients)
        gradients.push_back(priced_task(Collective::Send, {from, to}, block.gradients, prices));
    }
  }
  for (std::int32_t step = 0; step < stages.steps(); ++step) {
    const std::vector<PricedTask>& tasks = stages.sends_keys(step) ? keys : gradients;
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
      for (std::int32_t m = 0; m < stages.members; ++m)
        builder.add_message(
            step, static_cast<std::int32_t>(ring), m, rings[ring],
            tasks[ring * static_cast<std::size_t>(stages.members) + static_cast<std::size_t>(m)]);
    }
  }
}

}  // namespace pipesim
