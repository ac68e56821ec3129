#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/backend.h"
#include "executor/program/flow.h"

namespace pipesim {

/// Finds the buffers that a shard's kernels read and write.
class ShardViews {
 public:
  ShardViews(TaskGraphBuilder& builder, const BoundStrategy& strategy, const Backend& backend,
             Program& program);
  ShardViews(const ShardViews&) = delete;
  ShardViews& operator=(const ShardViews&) = delete;

  /// A value that a kernel reads, and the moves that put it together. Not present where the shard has no box
  /// of it.
  Flow::Target value(UseRef use, std::int32_t shard);
  View output(UseRef use, std::int32_t shard);
  /// The gradient of an output: complete, or zeros where nobody computes it.
  Flow::Target output_gradient(UseRef use, std::int32_t shard);
  /// Where the gradient of an input or weight goes; not present where it is not wanted.
  Flow::Sink gradient_sink(UseRef use, std::int32_t shard);
  /// By inner step of the pass.
  std::vector<View> statistics(OperatorId op, Pass pass, std::int32_t shard);
  View saved(OperatorId op, std::int32_t shard);
  /// Pieces of a weight's home on a device, with where its synchronised gradient lies.
  struct HomePiece {
    WeightUpdate update;
    MoveList moves;  ///< put the gradient together
  };
  std::vector<HomePiece> home(TensorId weight, DeviceId device);

  [[nodiscard]] Flow& flow(std::size_t wiring) { return *flows_[wiring]; }
  [[nodiscard]] DeviceId device_of(OperatorId op, std::int32_t shard) const {
    return strategy_[op.index()]->config.devices[static_cast<std::size_t>(shard)];
  }
  [[nodiscard]] BufferList& buffers() { return buffers_; }

 private:
  struct HomeBuffer {
    View value, master, first, second;
  };
  [[nodiscard]] std::optional<Box> box_of_use(UseRef use, std::int32_t shard) const;
  [[nodiscard]] const TensorUse& use_of(UseRef use) const;
  [[nodiscard]] HomeBuffer& home_buffer(TensorId weight, DeviceId device, const Box& box);
  [[nodiscard]] Flow::Target weight_value(UseRef use, DeviceId device, const Box& box);
  View loaded(Loaded::Content content, TensorId tensor, DeviceId device, const Box& box, DataType type);

  TaskGraphBuilder& builder_;
  const OperatorGraph& graph_;
  const BoundStrategy& strategy_;
  const Backend& backend_;
  Program& program_;
  BufferList buffers_;
  std::vector<std::unique_ptr<Flow>> flows_;                                  // by wiring
  std::map<std::pair<OperatorId, std::int32_t>, std::size_t> forward_flow_;   // use → wiring
  std::map<std::pair<OperatorId, std::int32_t>, std::size_t> backward_flow_;  // output use → wiring
  std::map<std::pair<OperatorId, std::int32_t>, std::pair<std::size_t, std::size_t>>
      gradient_flow_;  // → wiring, source
  std::map<TensorId, std::size_t> sync_flow_;
  std::map<std::tuple<OperatorId, std::int32_t, std::int32_t>, View> outputs_, states_;
  std::map<std::tuple<Loaded::Content, TensorId, DeviceId, Box>, View> loaded_;
  std::map<std::tuple<TensorId, DeviceId, Box>, HomeBuffer> homes_;
  std::map<std::tuple<TensorId, DeviceId, Box>, Flow::Target> crops_;
  std::map<std::tuple<OperatorId, Pass, std::int32_t>, std::vector<View>> statistics_;
  std::map<std::pair<OperatorId, std::int32_t>, View> saved_;
};

}  // namespace pipesim
