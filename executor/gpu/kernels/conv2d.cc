#include "executor/gpu/bodies/conv2d.h"

#include "executor/gpu/steps/activation.h"
#include "executor/gpu/steps/copies.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/gpu/steps/moves.h"
#include "executor/operators/attributes.h"

namespace pipesim::gpu {
namespace {

Piece scratch_piece(Stream& stream, const Box& box, DataType type) {
  return {box, stream.scratch(static_cast<std::size_t>(box.elements() * bytes_per_element(type))), type};
}

/// conv2d, and conv1d as one row. values: x[n, c, (h,) w], w[o, i, (rows,) columns], bias[o] if any, y.
/// Convolutions are of one type: that of the result or its gradient; what is kept in another is converted.
class Conv2d : public Kernel {
 public:
  [[nodiscard]] std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& y = call.values.back();
    if (y.elements() == 0) return;
    Convolution c{convolution_shape(call.op, call.ranges)};
    c.y = y.floats();
    if (call.values[0].present() && call.values[0].elements() > 0) {
      c.x = in_type(y.type, call.stream, call.values[0]);
      c.w = in_type(y.type, call.stream, call.values[1]);
      call.stream.convolve(c);
    } else {
      zero_piece(call.stream, y);  // all windows lie in the padding
    }
    if (!has_bias(call) || !call.values[bias_use].present()) return apply_fused(call);
    run(call.stream, y.elements(),
        AddChannelBias{c.y, call.values[bias_use].floats(), kept_before_fused(call), planes_of(c),
                       fused_activation(call.op)});
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &dx = call.gradients[0], &dy = call.gradients.back();
    if (!dx.present() || dx.elements() == 0) return;
    if (dy.elements() == 0) return zero_piece(call.stream, dx);
    Convolution c{convolution_shape(call.op, call.ranges)};
    c.wanted = Convolution::Wanted::InputGradient;
    c.y = gradient_before_fused(call);
    c.w = in_type(dy.type, call.stream, call.values[1]);
    convolve_into(call.stream, c, dy.type, c.x, dx);
  }

  void backward_weight(const ShardCall& call) const override {
    const Piece &dw = call.gradients[1], &dy = call.gradients.back(), &x = call.values[0];
    const bool biased = has_bias(call) && call.gradients[bias_use].present();
    if (!dw.present() && !biased) return;
    Convolution c{convolution_shape(call.op, call.ranges)};
    c.wanted = Convolution::Wanted::WeightGradient;
    if (dy.elements() > 0) c.y = gradient_before_fused(call);
    if (dw.present() && c.y.present() && x.present() && x.elements() > 0) {
      c.x = in_type(dy.type, call.stream, x);
      convolve_into(call.stream, c, dy.type, c.w, dw);
    } else if (dw.present()) {
      zero_piece(call.stream, dw);
    }
    if (biased) sum_for_bias(call, c);
  }

 private:
  static constexpr std::size_t bias_use = 2;
  static bool has_bias(const ShardCall& call) { return integer_of(call.op, "bias") != 0; }

  static ChannelPlanes planes_of(const Convolution& c) {
    return {c.samples, c.groups * c.out, c.result[0] * c.result[1]};
  }

  static Floats in_type(DataType type, Stream& stream, const Piece& piece) {
    if (stored_as(piece.type) == stored_as(type)) return piece.floats();
    const Piece converted = scratch_piece(stream, piece.box, type);
    copy_elements(stream, piece, converted);
    return converted.floats();
  }

  // `target` is the one of c's tensors that is overwritten.
  static void convolve_into(Stream& stream, Convolution& c, DataType type, Floats& target,
                            const Piece& result) {
    const bool alike = stored_as(result.type) == stored_as(type);
    const Piece convolved = alike ? result : scratch_piece(stream, result.box, type);
    target = convolved.floats();
    stream.convolve(c);
    if (!alike) copy_elements(stream, convolved, result);
  }

  static void sum_for_bias(const ShardCall& call, const Convolution& c) {
    const ChannelPlanes planes = planes_of(c);
    auto* partial = reinterpret_cast<double*>(
        call.stream.scratch(sizeof(double) * static_cast<std::size_t>(planes.teams())));
    run(call.stream, planes.teams(), ChannelSums<GradientTerms>{planes, {c.y}, partial});
    run(call.stream, planes.channels,
        ChannelBiasGradient{partial, planes.chunks, call.gradients[bias_use].floats()});
  }
};

}  // namespace

std::vector<KernelEntry> conv2d_kernels() {
  static const Conv2d conv2d;
  return {{"conv1d", &conv2d}, {"conv2d", &conv2d}};
}

}  // namespace pipesim::gpu
