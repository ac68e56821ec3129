#include <algorithm>

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/images/channel_bias.h"
#include "executor/cpu/kernels/images/convolution.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// conv1d, as one row of conv2d, to conv3d. values: x[n, c, spatial…], w[o, i, sides…], bias[o] if any, y.
template <std::size_t dims>
class ConvolutionKernel : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, pipesim::box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &y = call.values.back();
    if (x.present()) {
      convolve(shape_of(call), x.floats, call.values[1].floats, y.floats, call.op.name, call.step.sums);
    } else {
      std::fill_n(y.floats, y.elements(), 0.0F);  // all windows lie in the padding
    }
    add_channel_bias(call);
    apply_fused(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    convolve_for_input(shape_of(call), dy, call.values[1].floats, dx.floats, call.op.name, call.step.sums);
  }

  void backward_weight(const ShardCall& call) const override {
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    const Piece &dw = call.gradients[1], &x = call.values[0];
    if (dw.present() && x.present()) {
      convolve_for_weight(shape_of(call), x.floats, dy, dw.floats, call.op.name, call.step.sums);
    } else if (dw.present()) {
      std::fill_n(dw.floats, dw.elements(), 0.0F);
    }
    sum_for_channel_bias(call, dy);
  }

 private:
  static ConvolutionOver<dims> shape_of(const ShardCall& call) {
    return convolution_shape<dims>(call.op, call.ranges);
  }
};

}  // namespace

std::vector<KernelEntry> conv2d_kernels() {
  static const ConvolutionKernel<2> planes;
  static const ConvolutionKernel<3> volumes;
  return {{"conv1d", &planes}, {"conv2d", &planes}, {"conv3d", &volumes}};
}

}  // namespace pipesim::cpu
