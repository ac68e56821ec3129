#include <algorithm>

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/images/channel_bias.h"
#include "executor/cpu/kernels/images/convolution.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// The convolution whose gradient of the input a transposed convolution is. Its image, unpadded, reaches from
/// the first to the last element that the shard's x adds to, which are more than the shard's y has, or less.
template <std::size_t dims>
struct TransposedShard {
  explicit TransposedShard(const ShardCall& call) {
    const Box x = box_of(call, 0), y = box_of(call, call.op.uses.size() - 1);
    spread.samples = x[0].length();
    spread.groups = length_of(call.op, call.ranges, "g");
    spread.in = length_of(call.op, call.ranges, "o");
    spread.out = length_of(call.op, call.ranges, "i");
    for (auto* sides :
         {&spread.image, &spread.result, &spread.kernel, &spread.stride, &spread.dilation, &own})
      sides->fill(1);
    const std::size_t lacking = dims + 2 - x.dims();
    for (std::size_t dim = 0; dim + 2 < x.dims(); ++dim) {
      const std::size_t i = lacking + dim;
      const std::int64_t stride = list_of(call.op, "stride")[dim], rows = x[2 + dim].length();
      spread.result[i] = rows;
      spread.kernel[i] = list_of(call.op, "kernel")[dim];
      spread.stride[i] = stride;
      spread.dilation[i] = list_of(call.op, "dilation")[dim];
      spread.image[i] = (rows - 1) * stride + spread.dilation[i] * (spread.kernel[i] - 1) + 1;
      own[i] = y[2 + dim].length();
      first[i] = x[2 + dim].begin * stride - list_of(call.op, "pad")[dim] - y[2 + dim].begin;
    }
  }

  [[nodiscard]] bool fits() const {
    return spread.image == own && std::ranges::all_of(first, [](std::int64_t at) { return at == 0; });
  }
  [[nodiscard]] std::size_t elements() const {
    std::int64_t n = spread.samples * spread.groups * spread.in;
    for (const std::int64_t side : spread.image) n *= side;
    return static_cast<std::size_t>(n);
  }

  /// Calls visit(offset in the image, offset in y, elements) for each run of elements that both have.
  template <class Visit>
  void for_each_shared_run(Visit visit) const {
    std::array<Range, 3> shared{Range{0, 1}, Range{0, 1}, Range{0, 1}};  // of y
    std::array<std::int64_t, 3> image{1, 1, 1}, result{1, 1, 1}, before{};
    for (std::size_t i = 0; i < dims; ++i) {
      const std::size_t at = 3 - dims + i;
      shared[at] = {std::max<std::int64_t>(0, first[i]), std::min(own[i], first[i] + spread.image[i])};
      image[at] = spread.image[i], result[at] = own[i], before[at] = first[i];
    }
    if (shared[2].length() <= 0) return;
    for (std::int64_t p = 0; p < spread.samples * spread.groups * spread.in; ++p) {
      for (std::int64_t d = shared[0].begin; d < shared[0].end; ++d) {
        for (std::int64_t h = shared[1].begin; h < shared[1].end; ++h) {
          const std::int64_t row = (p * image[0] + d - before[0]) * image[1] + h - before[1];
          visit(row * image[2] + shared[2].begin - before[2],
                ((p * result[0] + d) * result[1] + h) * result[2] + shared[2].begin, shared[2].length());
        }
      }
    }
  }

  ConvolutionOver<dims> spread;
  std::array<std::int64_t, dims> own{}, first{};  ///< y's sides; where in y the image begins
};

/// conv_transpose1d, as one row of conv_transpose2d, to conv_transpose3d. values: x[n, i, spatial…], w[i, o,
/// sides…], bias[o] if any, y.
template <std::size_t dims>
class TransposedConvolution : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, pipesim::box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &y = call.values.back();
    const TransposedShard<dims> shard(call);
    const auto spread_into = [&](float* image) {
      convolve_for_input(shard.spread, x.floats, call.values[1].floats, image, call.op.name, call.step.sums);
    };
    if (x.present() && shard.fits()) {
      spread_into(y.floats);
    } else {
      std::fill_n(y.floats, y.elements(), 0.0F);
      if (x.present()) {
        std::vector<float> image(shard.elements());
        spread_into(image.data());
        shard.for_each_shared_run([&](std::int64_t from, std::int64_t to, std::int64_t n) {
          std::copy_n(image.data() + from, n, y.floats + to);
        });
      }
    }
    add_channel_bias(call);
    apply_fused(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    std::vector<float> scratch, image;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    const TransposedShard<dims> shard(call);
    convolve(shard.spread, gradient_image(shard, dy, image), call.values[1].floats, dx.floats, call.op.name,
             call.step.sums);
  }

  void backward_weight(const ShardCall& call) const override {
    std::vector<float> scratch, image;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    const Piece &dw = call.gradients[1], &x = call.values[0];
    if (dw.present() && x.present()) {
      const TransposedShard<dims> shard(call);
      convolve_for_weight(shard.spread, gradient_image(shard, dy, image), x.floats, dw.floats, call.op.name,
                          call.step.sums);
    } else if (dw.present()) {
      std::fill_n(dw.floats, dw.elements(), 0.0F);
    }
    sum_for_channel_bias(call, dy);
  }

 private:
  /// The result's gradient as the image, with zeros where the shard's y has nothing.
  static const float* gradient_image(const TransposedShard<dims>& shard, const float* dy,
                                     std::vector<float>& image) {
    if (shard.fits()) return dy;
    image.assign(shard.elements(), 0.0F);
    shard.for_each_shared_run([&](std::int64_t to, std::int64_t from, std::int64_t n) {
      std::copy_n(dy + from, n, image.data() + to);
    });
    return image.data();
  }
};

}  // namespace

std::vector<KernelEntry> conv_transpose_kernels() {
  static const TransposedConvolution<2> planes;
  static const TransposedConvolution<3> volumes;
  return {{"conv_transpose1d", &planes}, {"conv_transpose2d", &planes}, {"conv_transpose3d", &volumes}};
}

}  // namespace pipesim::cpu
