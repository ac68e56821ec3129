#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "executor/program/shard_views.h"
#include "taskgraph/binding/ring.h"

namespace pipesim {

/// Finds the buffers in which blocks of keys and values, and the sums of their gradients, pass round a ring.
/// One buffer holds all uses of a block, one after the other, as they travel.
class RingViews {
 public:
  RingViews(const OperatorGraph& graph, ShardViews& views) : graph_(graph), views_(views) {}

  /// A pass of a shard.
  struct PassOfShard {
    OperatorId op;
    Pass pass = Pass::Forward;
    ShardRef at;
    auto operator<=>(const PassOfShard&) const = default;
  };
  [[nodiscard]] RingStages stages(const PassOfShard& pass) const;
  /// Whether the gradient of a use travels.
  [[nodiscard]] bool gives_gradient(const PassOfShard& pass, std::size_t use) const;

  /// The use's part of a block of keys that a step has brought.
  View arrived(const PassOfShard& pass, std::int32_t step, std::size_t use);
  /// The gradient of the use's part of the block that a stage works on: the shard's share, or, when it
  /// leaves, the sum so far.
  View made(const PassOfShard& pass, std::int32_t stage, std::size_t use);
  /// The sum of these gradients that a step has brought.
  View arrived_gradient(const PassOfShard& pass, std::int32_t step, std::size_t use);

  /// A member's part in a message, and what comes before it.
  struct Message {
    CommunicationWork work;
    MoveList before;
  };
  Message message(const PassOfShard& pass, const InnerExchange& exchange, DeviceId device);

 private:
  enum class Content : std::uint8_t { Own, Arrived, Made, ArrivedGradient };
  struct Block {
    std::vector<View> of_use;  // not present where the use does not travel
    View all;
  };
  const Block& block(const PassOfShard& pass, Content content, std::int32_t number);
  [[nodiscard]] std::int32_t stage_of(const PassOfShard& pass, Content content, std::int32_t number) const;
  [[nodiscard]] const BoundOperator& bound(const PassOfShard& pass) const {
    return views_.bound(pass.op, pass.at.microbatch);
  }

  const OperatorGraph& graph_;
  ShardViews& views_;
  std::map<std::tuple<PassOfShard, Content, std::int32_t>, Block> blocks_;
};

}  // namespace pipesim
