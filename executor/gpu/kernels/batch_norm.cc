#include "executor/gpu/bodies/batch_norm.h"

#include "executor/gpu/steps/activation.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// Uses, statistics and segments as the CPU's.
class BatchNorm : public Kernel {
 public:
  /// What the fused activation keeps, then mean and 1/σ of each channel.
  [[nodiscard]] std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const BatchNormSizes sizes(op, ranges);
    return fused_saved_bytes(op, sizes.samples * sizes.channels * sizes.plane) +
           2 * sizeof(float) * static_cast<std::size_t>(sizes.channels);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const Channels c(call);
    if (!synchronises_statistics(call.op)) {
      auto* partial = scratch_of<double>(call, 2 * c.planes.teams());
      add_up(call, c, ValueTerms{call.values[0].floats()}, partial);
      finish(call, c, partial, c.planes.chunks);
    } else if (segment == 0) {
      add_up_values(call, c, call.statistics[0].data());
    } else {
      finish(call, c, call.statistics[0].data(), 1);
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const Channels c(call);
    if (!synchronises_statistics(call.op)) {
      auto* own = scratch_of<double>(call, 2 * c.planes.channels);
      add_up_gradients(call, c, own);
      finish_gradient(call, c, own);
    } else if (segment == 0) {
      add_up_gradients(call, c, call.statistics[0].data());
    } else {
      finish_gradient(call, c, call.statistics[0].data());
    }
  }

 private:
  struct Channels {
    explicit Channels(const ShardCall& call) : Channels(call, BatchNormSizes(call.op, call.ranges)) {}
    Channels(const ShardCall& call, const BatchNormSizes& sizes)
        : planes(sizes.samples, sizes.channels, sizes.plane), count(sizes.count) {
      std::byte* after = call.saved.data() + fused_saved_bytes(call.op, planes.elements());
      means = reinterpret_cast<float*>(after);
      inverses = means + planes.channels;
    }
    ChannelPlanes planes;
    double count = 0;
    float *means = nullptr, *inverses = nullptr;
  };

  template <class Number>
  static Number* scratch_of(const ShardCall& call, std::int64_t n) {
    return reinterpret_cast<Number*>(call.stream.scratch(sizeof(Number) * static_cast<std::size_t>(n)));
  }

  template <class Terms>
  static void add_up(const ShardCall& call, const Channels& c, const Terms& terms, double* partial) {
    run(call.stream, c.planes.teams(), ChannelSums<Terms>{c.planes, terms, partial});
  }

  static void add_up_values(const ShardCall& call, const Channels& c, double* sums) {
    const bool whole = c.planes.chunks == 1;
    auto* partial = whole ? sums : scratch_of<double>(call, 2 * c.planes.teams());
    add_up(call, c, ValueTerms{call.values[0].floats()}, partial);
    if (!whole) run(call.stream, 2 * c.planes.channels, AddChunks{partial, c.planes.chunks, sums});
  }

  static void finish(const ShardCall& call, const Channels& c, const double* sums, std::int64_t chunks) {
    const std::int64_t channels = c.planes.channels;
    auto* scales = scratch_of<ChannelScale>(call, channels);
    run(call.stream, channels,
        NormStatistics{sums, channels, chunks, c.count, call.values[1].floats(), call.values[2].floats(),
                       call.values[3].floats(), call.values[4].floats(), c.means, c.inverses, scales});
    run(call.stream, c.planes.elements(),
        Normalise{call.values[0].floats(), call.values[5].floats(), kept_before_fused(call), c.planes, scales,
                  fused_activation(call.op)});
  }

  static GradientBeforeActivation gradient_of(const ShardCall& call) {
    const Activation activation = fused_activation(call.op);
    return {call.gradients[5].floats(),
            needs_input(activation) ? kept_before_fused(call) : call.values[5].floats(), activation};
  }

  static void add_up_gradients(const ShardCall& call, const Channels& c, double* sums) {
    auto* partial = scratch_of<double>(call, 2 * c.planes.teams());
    add_up(call, c, NormGradientTerms{call.values[0].floats(), gradient_of(call), c.means}, partial);
    run(call.stream, c.planes.channels,
        NormGradientSums{partial, c.planes.channels, c.planes.chunks, c.inverses, sums,
                         call.gradients[1].floats(), call.gradients[2].floats()});
  }

  static void finish_gradient(const ShardCall& call, const Channels& c, const double* sums) {
    const Piece& dx = call.gradients[0];
    if (!dx.present()) return;
    run(call.stream, c.planes.elements(),
        NormGradient{call.values[0].floats(), dx.floats(), call.values[1].floats(), gradient_of(call),
                     c.planes, c.means, c.inverses, sums, c.count});
  }
};

}  // namespace

std::vector<KernelEntry> batch_norm_kernels() {
  static const BatchNorm batch_norm;
  return {{"batch_norm", &batch_norm}};
}

}  // namespace pipesim::gpu
