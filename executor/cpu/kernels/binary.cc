#include <algorithm>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/broadcast.h"

namespace pipesim::cpu {
namespace {

/// x[rows, columns] beside a narrower operand: out[i, j] = combine(x[i, j], operand[i, j]).
template <class Combine>
void combine_rows(const Broadcast& b, const float* x, const float* operand, float* out, Combine combine) {
  for (std::int64_t i = 0; i < b.rows; ++i, x += b.columns, out += b.columns) {
    const float* y = operand + b.start(i);
    if (b.step == 0) {
      for (std::int64_t j = 0; j < b.columns; ++j) out[j] = combine(x[j], y[0]);
    } else {
      for (std::int64_t j = 0; j < b.columns; ++j) out[j] = combine(x[j], y[j]);
    }
  }
}

/// The operand's gradient: term(row, column) summed over what the operand lacks.
template <class Term>
void sum_into_operand(const Broadcast& b, SumOrder order, float* gradient, Term term) {
  std::vector<double> sums(static_cast<std::size_t>(b.elements), 0.0);
  for_each_term(b.rows, order, [&](std::int64_t i) {
    double* row = sums.data() + b.start(i);
    const std::int64_t first = i * b.columns;
    if (b.step != 0) {
      for (std::int64_t j = 0; j < b.columns; ++j) row[j] += static_cast<double>(term(first + j));
    } else {
      for_each_term(b.columns, order,
                    [&](std::int64_t j) { row[0] += static_cast<double>(term(first + j)); });
    }
  });
  std::transform(sums.begin(), sums.end(), gradient, [](double s) { return static_cast<float>(s); });
}

/// values: x, y, result.
class Add : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    combine_rows(Broadcast(call.op, call.ranges), call.values[0].floats, call.values[1].floats,
                 call.values[2].floats, [](float x, float y) { return x + y; });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    const float* d = call.gradients[2].floats;
    const Piece &dx = call.gradients[0], &dy = call.gradients[1];
    if (dx.present()) std::copy_n(d, b.full.elements(), dx.floats);
    if (dy.present() && b.plain) {
      std::copy_n(d, b.full.elements(), dy.floats);
    } else if (dy.present()) {
      sum_into_operand(b, call.step.sums, dy.floats, [d](std::int64_t i) { return d[i]; });
    }
  }
};

class Mul : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    combine_rows(Broadcast(call.op, call.ranges), call.values[0].floats, call.values[1].floats,
                 call.values[2].floats, [](float x, float y) { return x * y; });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    const float *d = call.gradients[2].floats, *x = call.values[0].floats;
    if (call.gradients[0].present()) {
      combine_rows(b, d, call.values[1].floats, call.gradients[0].floats,
                   [](float g, float y) { return g * y; });
    }
    if (call.gradients[1].present()) {
      sum_into_operand(b, call.step.sums, call.gradients[1].floats,
                       [d, x](std::int64_t i) { return d[i] * x[i]; });
    }
  }
};

}  // namespace

std::vector<KernelEntry> binary_kernels() {
  static const Add add;
  static const Mul mul;
  return {{"add", &add}, {"mul", &mul}};
}

}  // namespace pipesim::cpu
