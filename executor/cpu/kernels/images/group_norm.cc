#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/row_norm.h"

namespace pipesim::cpu {
namespace {

/// values: x[n, groups·channels, spatial…], gamma and beta[groups·channels] if affine, y. Statistics of each
/// sample's groups: forward Σx, Σx²; backward Σg, Σg·x̂ with g = dy·γ.
class GroupNorm : public Kernel {
 public:
  /// Mean and 1/σ of each group.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const std::int64_t samples = length_of(op, ranges, "n"), groups = length_of(op, ranges, "g");
    return 2 * sizeof(float) * static_cast<std::size_t>(samples * groups);
  }

  void forward(const ShardCall& call, std::size_t segment) const override {
    const Groups g(call);
    g.for_each([&](std::int64_t group) {
      if (segment == 0) {
        add_up_group(call, g, group);
      } else {
        normalise_group(call, g, group);
      }
    });
  }

  void backward_input(const ShardCall& call, std::size_t segment) const override {
    const Groups g(call);
    if (segment == 0) {
      g.for_each([&](std::int64_t group) { add_up_group_gradients(call, g, group); });
      return weight_gradients(call, g);
    }
    if (!call.gradients[0].present()) return;
    g.for_each([&](std::int64_t group) { input_gradient(call, g, group); });
  }

 private:
  struct Groups {
    explicit Groups(const ShardCall& call)
        : samples(length_of(call.op, call.ranges, "n")),
          groups(length_of(call.op, call.ranges, "g")),
          channels(length_of(call.op, call.ranges, "c")),
          affine(integer_of(call.op, "affine") != 0) {
      const TensorUse& x = call.op.uses[0];
      const Box box = box_of(call, 0);
      plane = volume(box, 2, box.dims());
      const std::int64_t of_a_group = whole_volume(x, 1, x.dims.size()) / integer_of(call.op, "groups");
      count = static_cast<double>(of_a_group);
      gamma = affine ? call.values[1].floats : nullptr;
      beta = affine ? call.values[2].floats : nullptr;
    }

    /// Calls visit(number of the group among those of all samples).
    template <class Visit>
    void for_each(Visit visit) const {
      for (std::int64_t i = 0; i < samples * groups; ++i) visit(i);
    }
    /// Calls visit(channel of all, first element of its plane) for each of a group's.
    template <class Visit>
    void for_each_channel(std::int64_t group, SumOrder order, Visit visit) const {
      for_each_term(channels, order, [&](std::int64_t c) {
        visit(group % groups * channels + c, (group * channels + c) * plane);
      });
    }
    [[nodiscard]] double scale(std::int64_t channel) const {
      return affine ? static_cast<double>(gamma[channel]) : 1;
    }
    [[nodiscard]] double shift(std::int64_t channel) const {
      return affine ? static_cast<double>(beta[channel]) : 0;
    }

    std::int64_t samples, groups, channels;  ///< channels: of a group
    bool affine;
    std::int64_t plane = 0;
    double count = 0;  ///< elements of an unsplit group
    const float *gamma = nullptr, *beta = nullptr;
  };

  struct Saved {
    Saved(const ShardCall& call, std::int64_t group)
        : mean(static_cast<double>(saved_floats(call)[2 * group])),
          inverse(static_cast<double>(saved_floats(call)[2 * group + 1])) {}
    double mean, inverse;
  };

  static double* sums_of(const ShardCall& call, std::int64_t group) {
    return call.statistics[0].data() + 2 * group;
  }

  static void add_up_group(const ShardCall& call, const Groups& g, std::int64_t group) {
    const float* x = call.values[0].floats;
    const SumOrder order = call.step.sums;
    double sum = 0, squares = 0;
    g.for_each_channel(group, order, [&](std::int64_t, std::int64_t first) {
      for_each_term(g.plane, order, [&](std::int64_t j) {
        const auto v = static_cast<double>(x[first + j]);
        sum += v;
        squares += v * v;
      });
    });
    sums_of(call, group)[0] = sum;
    sums_of(call, group)[1] = squares;
  }

  static void normalise_group(const ShardCall& call, const Groups& g, std::int64_t group) {
    const float* x = call.values[0].floats;
    float *y = call.values.back().floats, *saved = saved_floats(call) + 2 * group;
    const double mean = sums_of(call, group)[0] / g.count;
    const double inverse = inverse_deviation(mean, sums_of(call, group)[1] / g.count);
    saved[0] = static_cast<float>(mean);
    saved[1] = static_cast<float>(inverse);
    g.for_each_channel(group, SumOrder::Ascending, [&](std::int64_t channel, std::int64_t first) {
      const double slope = inverse * g.scale(channel), shift = g.shift(channel);
      for (std::int64_t j = first; j < first + g.plane; ++j)
        y[j] = static_cast<float>((static_cast<double>(x[j]) - mean) * slope + shift);
    });
  }

  static void add_up_group_gradients(const ShardCall& call, const Groups& g, std::int64_t group) {
    const float *x = call.values[0].floats, *dy = call.gradients.back().floats;
    const SumOrder order = call.step.sums;
    const Saved saved(call, group);
    double sum = 0, products = 0;
    g.for_each_channel(group, order, [&](std::int64_t channel, std::int64_t first) {
      for_each_term(g.plane, order, [&](std::int64_t j) {
        const double d = static_cast<double>(dy[first + j]) * g.scale(channel);
        sum += d;
        products += d * (static_cast<double>(x[first + j]) - saved.mean);
      });
    });
    sums_of(call, group)[0] = sum;
    sums_of(call, group)[1] = products * saved.inverse;
  }

  static void weight_gradients(const ShardCall& call, const Groups& g) {
    if (!g.affine || (!call.gradients[1].present() && !call.gradients[2].present())) return;
    const float *x = call.values[0].floats, *dy = call.gradients.back().floats;
    const SumOrder order = call.step.sums;
    for (std::int64_t channel = 0; channel < g.groups * g.channels; ++channel) {
      double along = 0, sum = 0;
      for_each_term(g.samples, order, [&](std::int64_t n) {
        const Saved saved(call, n * g.groups + channel / g.channels);
        const std::int64_t first = (n * g.groups * g.channels + channel) * g.plane;
        for_each_term(g.plane, order, [&](std::int64_t j) {
          const auto d = static_cast<double>(dy[first + j]);
          along += d * (static_cast<double>(x[first + j]) - saved.mean) * saved.inverse;
          sum += d;
        });
      });
      if (call.gradients[1].present()) call.gradients[1].floats[channel] = static_cast<float>(along);
      if (call.gradients[2].present()) call.gradients[2].floats[channel] = static_cast<float>(sum);
    }
  }

  static void input_gradient(const ShardCall& call, const Groups& g, std::int64_t group) {
    const float *x = call.values[0].floats, *dy = call.gradients.back().floats;
    float* dx = call.gradients[0].floats;
    const Saved saved(call, group);
    const double average = sums_of(call, group)[0] / g.count;
    const double along = saved.inverse * sums_of(call, group)[1] / g.count;
    g.for_each_channel(group, SumOrder::Ascending, [&](std::int64_t channel, std::int64_t first) {
      for (std::int64_t j = first; j < first + g.plane; ++j) {
        const double centred = static_cast<double>(x[j]) - saved.mean;
        const double d = static_cast<double>(dy[j]) * g.scale(channel);
        dx[j] = static_cast<float>(saved.inverse * (d - average - centred * along));
      }
    });
  }
};

}  // namespace

std::vector<KernelEntry> group_norm_kernels() {
  static const GroupNorm group_norm;
  return {{"group_norm", &group_norm}};
}

}  // namespace pipesim::cpu
