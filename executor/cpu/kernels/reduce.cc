#include <algorithm>
#include <array>
#include <limits>

#include "executor/cpu/kernels/families.h"
#include "executor/cpu/operands.h"

namespace pipesim::cpu {
namespace {

/// Which element of the result each element of x goes to.
struct ReducedDims {
  explicit ReducedDims(const ShardCall& call) : box(box_of(call, 0)), result(box_of(call, 1).elements()) {
    const auto& axes = list_of(call.op, "axes");
    std::int64_t stride = 1;
    for (std::size_t i = box.dims(); i-- > 0;) {
      const bool gone = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
      strides[i] = gone ? 0 : stride;
      if (gone) count *= call.op.uses[0].dims[i].extent;
      if (!gone) stride *= box[i].length();
    }
    columns = box[box.dims() - 1].length();
    rows = box.elements() / columns;
    step = strides[box.dims() - 1];
  }

  /// Calls visit(element of x, element of the result).
  template <class Visit>
  void for_each(SumOrder order, Visit visit) const {
    for_each_term(rows, order, [&](std::int64_t row) {
      std::int64_t rest = row, at = 0;
      for (std::size_t i = box.dims() - 1; i-- > 0;) {
        at += rest % box[i].length() * strides[i];
        rest /= box[i].length();
      }
      for_each_term(columns, order, [&](std::int64_t j) { visit(row * columns + j, at + j * step); });
    });
  }

  Box box;
  std::array<std::int64_t, Box::max_dims> strides{};  ///< in the result; 0 for dims that disappear
  std::int64_t result, rows = 1, columns = 1, step = 0;
  std::int64_t count = 1;  ///< elements of the unsplit x for each of the result
};

/// values: x, y. Sum and mean: y is one addend over what is reduced, the mean by the count of the whole.
class Reduce : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t segment) const override {
    const ReducedDims dims(call);
    const float* x = call.values[0].floats;
    float* y = call.values[1].floats;
    if (is_max(call)) return largest(call, dims, segment);
    std::vector<double> sums(static_cast<std::size_t>(dims.result), 0.0);
    dims.for_each(call.step.sums, [&](std::int64_t from, std::int64_t to) {
      sums[static_cast<std::size_t>(to)] += static_cast<double>(x[from]);
    });
    const double divisor = divisor_of(call, dims);
    std::transform(sums.begin(), sums.end(), y, [&](double s) { return static_cast<float>(s / divisor); });
  }

  /// All elements that equal the largest get its gradient: which of them comes first in the unsplit tensor,
  /// no shard knows.
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const ReducedDims dims(call);
    float* dx = call.gradients[0].floats;
    const float* dy = call.gradients[1].floats;
    if (is_max(call)) {
      const float *x = call.values[0].floats, *y = call.values[1].floats;
      dims.for_each(SumOrder::Ascending,
                    [&](std::int64_t to, std::int64_t from) { dx[to] = x[to] == y[from] ? dy[from] : 0.0F; });
    } else {
      const auto share = static_cast<float>(1 / divisor_of(call, dims));
      dims.for_each(SumOrder::Ascending,
                    [&](std::int64_t to, std::int64_t from) { dx[to] = dy[from] * share; });
    }
  }

 private:
  static bool is_max(const ShardCall& call) { return word_of(call.op, "mode") == "max"; }
  static double divisor_of(const ShardCall& call, const ReducedDims& dims) {
    return word_of(call.op, "mode") == "mean" ? static_cast<double>(dims.count) : 1.0;
  }

  static void largest(const ShardCall& call, const ReducedDims& dims, std::size_t segment) {
    const std::span<double> most = call.statistics[0];
    if (segment == 0) {
      std::fill(most.begin(), most.end(), -std::numeric_limits<double>::infinity());
      dims.for_each(SumOrder::Ascending, [&](std::int64_t from, std::int64_t to) {
        double& m = most[static_cast<std::size_t>(to)];
        m = std::max(m, static_cast<double>(call.values[0].floats[from]));
      });
    } else {
      std::transform(most.begin(), most.end(), call.values[1].floats,
                     [](double m) { return static_cast<float>(m); });
    }
  }
};

}  // namespace

std::vector<KernelEntry> reduce_kernels() {
  static const Reduce reduce;
  return {{"reduce", &reduce}};
}

}  // namespace pipesim::cpu
