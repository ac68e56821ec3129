#include "executor/operators/batch_norm.h"

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// values: x[n, c, spatial…], gamma[c], beta[c], running mean[c], running variance[c], y. Statistics: forward
/// [Σx, Σx²], backward [Σdy, Σdy·x̂], the first for all channels, then the second. Without inner steps they
/// are those of the shard alone.
class BatchNorm : public Kernel {
 public:
  /// Mean and 1/σ of each channel, then what the fused activation keeps.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const Box x = pipesim::box_of(op.uses[0], op, ranges);
    return row_bytes(x) + fused_saved_bytes(op, x.elements());
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const Channels c(call);
    if (!synchronises_statistics(call.op)) {
      std::vector<double> own(c.channels * 2);
      add_up_values(call, c, own);
      finish(call, c, own);
    } else if (segment == 0) {
      add_up_values(call, c, call.statistics[0]);
    } else {
      finish(call, c, call.statistics[0]);
    }
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const Channels c(call);
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, before_fused(call), scratch);
    if (!synchronises_statistics(call.op)) {
      std::vector<double> own(c.channels * 2);
      add_up_gradients(call, c, dy, own);
      finish_gradient(call, c, dy, own);
    } else if (segment == 0) {
      add_up_gradients(call, c, dy, call.statistics[0]);
    } else {
      finish_gradient(call, c, dy, call.statistics[0]);
    }
  }

 private:
  struct Channels {
    explicit Channels(const ShardCall& call) : Channels(BatchNormSizes(call.op, call.ranges)) {}
    explicit Channels(const BatchNormSizes& sizes)
        : samples(sizes.samples),
          plane(sizes.plane),
          channels(static_cast<std::size_t>(sizes.channels)),
          count(sizes.count) {}
    std::int64_t samples = 0, plane = 0;
    std::size_t channels = 0;
    double count = 0;

    /// Calls visit(first element) for every plane of a channel.
    template <class Visit>
    void for_each_plane(std::size_t channel, SumOrder order, Visit visit) const {
      for_each_term(samples, order, [&](std::int64_t n) {
        visit((n * static_cast<std::int64_t>(channels) + static_cast<std::int64_t>(channel)) * plane);
      });
    }
  };

  static std::size_t row_bytes(const Box& x) {
    return 2 * sizeof(float) * static_cast<std::size_t>(x[1].length());
  }
  static float* before_fused(const ShardCall& call) { return saved_floats(call, row_bytes(box_of(call, 0))); }

  static void add_up_values(const ShardCall& call, const Channels& c, std::span<double> sums) {
    const float* x = call.values[0].floats;
    const SumOrder order = call.step.sums;
    for (std::size_t i = 0; i < c.channels; ++i) {
      double sum = 0, squares = 0;
      c.for_each_plane(i, order, [&](std::int64_t first) {
        for_each_term(c.plane, order, [&](std::int64_t j) {
          const auto v = static_cast<double>(x[first + j]);
          sum += v;
          squares += v * v;
        });
      });
      sums[i] = sum;
      sums[c.channels + i] = squares;
    }
  }

  static void finish(const ShardCall& call, const Channels& c, std::span<const double> sums) {
    const float* x = call.values[0].floats;
    float *y = call.values[5].floats, *saved = saved_floats(call);
    for (std::size_t i = 0; i < c.channels; ++i) {
      const ChannelStatistics fresh = channel_statistics(sums[i], sums[c.channels + i], c.count);
      saved[i] = static_cast<float>(fresh.mean);
      saved[c.channels + i] = static_cast<float>(fresh.inverse);
      update_running(call, i, fresh, c.count);
      const double slope = fresh.inverse * static_cast<double>(call.values[1].floats[i]);
      const auto shift = static_cast<double>(call.values[2].floats[i]);
      c.for_each_plane(i, SumOrder::Ascending, [&](std::int64_t first) {
        for (std::int64_t j = first; j < first + c.plane; ++j) {
          y[j] = static_cast<float>((static_cast<double>(x[j]) - fresh.mean) * slope + shift);
        }
      });
    }
    apply_fused(call, before_fused(call));
  }

  /// Local statistics are kept by the first shard of a group alone.
  static void update_running(const ShardCall& call, std::size_t channel, const ChannelStatistics& fresh,
                             double count) {
    const Piece &mean = call.values[3], &variance = call.values[4];
    if (mean.present()) mean.floats[channel] = running_mean(mean.floats[channel], fresh);
    if (variance.present())
      variance.floats[channel] = running_variance(variance.floats[channel], fresh, count);
  }

  /// The sums of this shard alone are also its addends of the weights' gradients.
  static void add_up_gradients(const ShardCall& call, const Channels& c, const float* dy,
                               std::span<double> sums) {
    const float *x = call.values[0].floats, *saved = saved_floats(call);
    const SumOrder order = call.step.sums;
    for (std::size_t i = 0; i < c.channels; ++i) {
      const auto mean = static_cast<double>(saved[i]), inverse = static_cast<double>(saved[c.channels + i]);
      double sum = 0, products = 0;
      c.for_each_plane(i, order, [&](std::int64_t first) {
        for_each_term(c.plane, order, [&](std::int64_t j) {
          const auto d = static_cast<double>(dy[first + j]);
          sum += d;
          products += d * (static_cast<double>(x[first + j]) - mean);
        });
      });
      sums[i] = sum;
      sums[c.channels + i] = products * inverse;
      if (call.gradients[1].present()) call.gradients[1].floats[i] = static_cast<float>(products * inverse);
      if (call.gradients[2].present()) call.gradients[2].floats[i] = static_cast<float>(sum);
    }
  }

  static void finish_gradient(const ShardCall& call, const Channels& c, const float* dy,
                              std::span<const double> sums) {
    const float *x = call.values[0].floats, *saved = saved_floats(call);
    if (!call.gradients[0].present()) return;
    float* dx = call.gradients[0].floats;
    for (std::size_t i = 0; i < c.channels; ++i) {
      const auto mean = static_cast<double>(saved[i]), inverse = static_cast<double>(saved[c.channels + i]);
      const double slope = inverse * static_cast<double>(call.values[1].floats[i]);
      const double average = sums[i] / c.count, along = inverse * sums[c.channels + i] / c.count;
      c.for_each_plane(i, SumOrder::Ascending, [&](std::int64_t first) {
        for (std::int64_t j = first; j < first + c.plane; ++j) {
          const double centred = static_cast<double>(x[j]) - mean;
          dx[j] = static_cast<float>(slope * (static_cast<double>(dy[j]) - average - centred * along));
        }
      });
    }
  }
};

}  // namespace

std::vector<KernelEntry> batch_norm_kernels() {
  static const BatchNorm batch_norm;
  return {{"batch_norm", &batch_norm}};
}

}  // namespace pipesim::cpu
