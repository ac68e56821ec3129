#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/program/device_kernels.h"
#include "executor/program/flow.h"

namespace pipesim {

/// A shard of an operator in a microbatch, and whether it runs after forward. If so, it reads recomputed
/// tensors where there are any.
struct ShardRef {
  std::int32_t shard = 0;
  std::int32_t microbatch = 0;
  bool second_run = false;
  auto operator<=>(const ShardRef&) const = default;
};

/// Finds the buffers that a shard's kernels read and write. Weights, their gradients and states are the same
/// for all microbatches. But where weights change while microbatches are under way, a stage's weight has one
/// buffer per kept version, used in turn, and one gradient per change. The newest version is in the first
/// buffer before and after a step.
class ShardViews {
 public:
  ShardViews(const ExpandedStrategy& expanded, const DeviceKernels& kernels, Program& program);
  ShardViews(const ShardViews&) = delete;
  ShardViews& operator=(const ShardViews&) = delete;

  /// A value that a kernel reads, and the moves that assemble it. Not present when the shard has no box of
  /// it.
  Flow::Target value(UseRef use, ShardRef at);
  View output(UseRef use, ShardRef at);
  /// The gradient of an output: complete, or zeros when no consumer computes it.
  Flow::Target output_gradient(UseRef use, ShardRef at);
  /// Where the gradient of an input or weight goes; not present where it is not wanted.
  Flow::Sink gradient_sink(UseRef use, ShardRef at);
  /// The statistics by inner step of the pass.
  std::vector<View> statistics(OperatorId op, Pass pass, ShardRef at);
  View saved(OperatorId op, ShardRef at);
  /// Pieces of a weight's state on a device, with where its synchronised gradient lies.
  struct StatePiece {
    WeightUpdate update;
    MoveList moves;  ///< put the gradient together
    View before;     ///< holds the weight before, where the update makes a new one in another buffer
    View home;       ///< takes the weight, where it is gathered only in the next step
  };
  /// `microbatch`: the first whose gradients the update takes in.
  std::vector<StatePiece> state(TensorId weight, DeviceId device, std::int32_t microbatch);
  /// Says, for a weight whose gradients are reduced after each microbatch, where a device adds up its parts,
  /// and what it got for one microbatch.
  struct GradientPiece {
    View sum;
    Flow::Target got;
  };
  std::vector<GradientPiece> gradient_pieces(TensorId weight, DeviceId device, std::int32_t microbatch);
  /// Moves that bring an updated weight from where it was gathered to its home on the device.
  MoveList bring_home(TensorId weight, DeviceId device);

  [[nodiscard]] Flow& flow(std::size_t wiring) { return *flows_[wiring]; }
  /// The operator as the microbatch runs it.
  [[nodiscard]] const BoundOperator& bound(OperatorId op, std::int32_t microbatch) const {
    return *contents_.strategy_of(microbatch, strategy_)[op.index()];
  }
  [[nodiscard]] DeviceId device_of(OperatorId op, ShardRef at) const {
    return bound(op, at.microbatch).config.devices[static_cast<std::size_t>(at.shard)];
  }
  [[nodiscard]] BufferList& buffers() { return buffers_; }

 private:
  // A box of a weight that is stored, or whose state is, or both.
  struct WeightBuffer {
    std::vector<View> values;  // versions in turn
    View master, first, second;
    View updated;   // where the box's weights are stored as part of a larger one
    View gradient;  // where gradients are reduced after each microbatch
    bool has_state = false;
  };
  [[nodiscard]] ShardRef run_of(OperatorId op, ShardRef at) const;
  [[nodiscard]] std::optional<Box> box_of_use(UseRef use, ShardRef at) const;
  [[nodiscard]] const TensorUse& use_of(UseRef use) const;
  [[nodiscard]] WeightBuffer& stored(TensorId weight, DeviceId device, const Box& box);
  [[nodiscard]] WeightBuffer& with_state(TensorId weight, DeviceId device, const Box& box);
  [[nodiscard]] bool is_trained(TensorId weight) const;
  [[nodiscard]] LayoutId stored_layout(TensorId weight) const;
  [[nodiscard]] DataType stored_type(TensorId weight) const;
  [[nodiscard]] bool gathered_in_next_step(TensorId weight) const;
  [[nodiscard]] WeightBuffer& stored_around(TensorId weight, DeviceId device, const Box& box);
  [[nodiscard]] Flow::HeldView held_by(const Wiring& wiring);
  [[nodiscard]] Flow::Target weight_value(UseRef use, ShardRef at, DeviceId device, const Box& box);
  [[nodiscard]] Flow::Target gathered_value(Flow& flow, UseRef use, ShardRef at, DeviceId device,
                                            const Box& box);
  [[nodiscard]] Flow::Target brought_home(Flow& flow, UseRef use, DeviceId device, const Box& box);
  [[nodiscard]] Flow::Target cropped(const Flow::Target& whole, TensorId weight, DeviceId device,
                                     const Box& box, std::int32_t copy);
  [[nodiscard]] std::int32_t stage_of(TensorId weight) const;
  [[nodiscard]] std::int32_t first_of_change(TensorId weight, std::int32_t microbatch) const;
  View loaded(Loaded::Content content, TensorId tensor, std::int32_t microbatch, DeviceId device,
              const Box& box, DataType type);

  const PlanContents& contents_;
  const OperatorGraph& graph_;
  const BoundStrategy& strategy_;
  const DeviceKernels& kernels_;
  Program& program_;
  BufferList buffers_;
  using UseKey = std::tuple<OperatorId, std::int32_t, std::int32_t>;     // last the wiring's microbatch
  std::vector<std::unique_ptr<Flow>> flows_;                             // by wiring
  std::map<UseKey, std::size_t> forward_flow_;                           // use → wiring
  std::map<UseKey, std::size_t> again_flow_;                             // use → wiring of a second run
  std::map<UseKey, std::size_t> backward_flow_;                          // output use → wiring
  std::map<UseKey, std::pair<std::size_t, std::size_t>> gradient_flow_;  // → wiring, source
  std::map<std::pair<TensorId, std::int32_t>, std::size_t> sync_flow_;   // by weight and first microbatch
  std::map<std::tuple<OperatorId, std::int32_t, ShardRef>, View> outputs_;
  std::map<std::tuple<OperatorId, std::int32_t, DeviceId>, View> states_;  // by use and device
  std::map<std::tuple<Loaded::Content, TensorId, std::int32_t, DeviceId, Box>, View> loaded_;
  std::map<UseKey, std::size_t> forward_gather_, backward_gather_;  // use of a weight → wiring
  std::map<TensorId, std::size_t> updated_gather_;                  // weight → wiring
  std::map<std::tuple<TensorId, DeviceId, Box>, WeightBuffer> weights_;
  std::map<std::tuple<TensorId, DeviceId, Box, std::int32_t>, Flow::Target>
      crops_;  // last the version, or the gather
  std::map<std::tuple<OperatorId, Pass, ShardRef>, std::vector<View>> statistics_;
  std::map<std::pair<OperatorId, ShardRef>, View> saved_;
};

}  // namespace pipesim
