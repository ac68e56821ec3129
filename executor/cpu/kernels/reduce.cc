#include <algorithm>
#include <limits>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/reduce.h"

namespace pipesim::cpu {
namespace {

/// Calls visit(element of x, element of the result).
template <class Visit>
void for_each_reduced(const ReduceShape& shape, SumOrder order, Visit visit) {
  const Strided& map = shape.result_of;
  const std::int64_t columns = map.dims == 0 ? 1 : map.lengths[static_cast<std::size_t>(map.dims - 1)];
  for_each_term(shape.results * shape.terms / columns, order, [&](std::int64_t row) {
    const std::int64_t at = map.at(row * columns);
    for_each_term(columns, order,
                  [&](std::int64_t j) { visit(row * columns + j, at + j * map.last_step()); });
  });
}

/// y = sums or means of x, added up in double.
void add_up(const ReduceShape& shape, SumOrder order, const float* x, float* y) {
  std::vector<double> sums(static_cast<std::size_t>(shape.results), 0.0);
  for_each_reduced(shape, order, [&](std::int64_t from, std::int64_t to) {
    sums[static_cast<std::size_t>(to)] += static_cast<double>(x[from]);
  });
  std::transform(sums.begin(), sums.end(), y,
                 [&](double s) { return static_cast<float>(s / shape.divisor); });
}

/// values: x, y. Sum and mean: y is one addend over what is reduced, the mean by the count of the whole.
class Reduce : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t segment) const override {
    const ReduceShape shape(call.op, call.ranges);
    if (shape.largest) return largest(call, shape, segment);
    add_up(shape, call.step.sums, call.values[0].floats, call.values[1].floats);
  }

  /// All elements that equal the largest get its gradient: which of them comes first in the unsplit tensor,
  /// no shard knows.
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const ReduceShape shape(call.op, call.ranges);
    float* dx = call.gradients[0].floats;
    const float* dy = call.gradients[1].floats;
    if (shape.largest) {
      const float *x = call.values[0].floats, *y = call.values[1].floats;
      for_each_reduced(shape, SumOrder::Ascending, [&](std::int64_t to, std::int64_t from) {
        dx[to] = x[to] == y[from] ? dy[from] : 0.0F;
      });
    } else {
      const auto share = static_cast<float>(1 / shape.divisor);
      for_each_reduced(shape, SumOrder::Ascending,
                       [&](std::int64_t to, std::int64_t from) { dx[to] = dy[from] * share; });
    }
  }

 private:
  static void largest(const ShardCall& call, const ReduceShape& shape, std::size_t segment) {
    const std::span<double> most = call.statistics[0];
    if (segment == 0) {
      std::fill(most.begin(), most.end(), -std::numeric_limits<double>::infinity());
      for_each_reduced(shape, SumOrder::Ascending, [&](std::int64_t from, std::int64_t to) {
        double& m = most[static_cast<std::size_t>(to)];
        m = std::max(m, static_cast<double>(call.values[0].floats[from]));
      });
    } else {
      std::transform(most.begin(), most.end(), call.values[1].floats,
                     [](double m) { return static_cast<float>(m); });
    }
  }
};

/// values: x, y, which has a dimension more. dx is one addend over what the shard has of it.
class Broadcast : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const float* x = call.values[0].floats;
    float* y = call.values[1].floats;
    for_each_reduced(ReduceShape::of_broadcast(call.op, call.ranges), SumOrder::Ascending,
                     [&](std::int64_t to, std::int64_t from) { y[to] = x[from]; });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    add_up(ReduceShape::of_broadcast(call.op, call.ranges), call.step.sums, call.gradients[1].floats,
           call.gradients[0].floats);
  }
};

}  // namespace

std::vector<KernelEntry> reduce_kernels() {
  static const Reduce reduce;
  static const Broadcast broadcast;
  return {{"reduce", &reduce}, {"broadcast", &broadcast}};
}

}  // namespace pipesim::cpu
