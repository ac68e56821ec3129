#include <algorithm>
#include <cmath>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/activation.h"
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

struct Difference {
  static float value(float x, float y) { return x - y; }
  static float slope(float, float) { return 1; }
  static float operand_slope(float, float) { return -1; }
};
struct Quotient {
  static float value(float x, float y) { return x / y; }
  static float slope(float, float y) { return 1 / y; }
  static float operand_slope(float x, float y) { return -x / (y * y); }
};
/// Where both are equal, the gradient is x's.
struct Maximum {
  static float value(float x, float y) { return x >= y ? x : y; }
  static float slope(float x, float y) { return x >= y ? 1 : 0; }
  static float operand_slope(float x, float y) { return x >= y ? 0 : 1; }
};
struct Minimum {
  static float value(float x, float y) { return x <= y ? x : y; }
  static float slope(float x, float y) { return x <= y ? 1 : 0; }
  static float operand_slope(float x, float y) { return x <= y ? 0 : 1; }
};

/// A function of two operands with its slopes; reads what the operator keeps. values: x, y, result.
template <class Function>
class Combined : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    combine_rows(Broadcast(call.op, call.ranges), call.values[0].floats, call.values[1].floats,
                 call.values[2].floats, Function::value);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    const float *d = call.gradients[2].floats, *x = call.values[0].floats, *y = call.values[1].floats;
    // Slopes of a difference are constant, and it keeps nothing.
    const auto at = [&](const float* tensor, std::int64_t i) { return tensor == nullptr ? 0 : tensor[i]; };
    const auto operand = [&](std::int64_t i) { return b.start(i / b.columns) + i % b.columns * b.step; };
    if (const Piece& dx = call.gradients[0]; dx.present()) {
      for (std::int64_t i = 0; i < dx.elements(); ++i)
        dx.floats[i] = d[i] * Function::slope(at(x, i), at(y, operand(i)));
    }
    if (call.gradients[1].present()) {
      sum_into_operand(b, call.step.sums, call.gradients[1].floats, [&](std::int64_t i) {
        return d[i] * Function::operand_slope(at(x, i), at(y, operand(i)));
      });
    }
  }
};

/// values: x, y, a weight for each row if there is one, result = f(x) · y · weight, f being the gate's
/// function.
class Swiglu : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Operands o(call);
    const Piece& result = call.values[o.result];
    with_activation(gate_activation(call.op), [&]<Activation f>() {
      for (std::int64_t i = 0; i < result.elements(); ++i)
        result.floats[i] = activation_value<f>(o.x[i]) * o.y[i] * o.weight(i);
    });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    with_activation(gate_activation(call.op), [&]<Activation f>() { send_back<f>(call, Operands(call)); });
  }

 private:
  struct Operands {
    explicit Operands(const ShardCall& call)
        : result(call.op.uses.size() - 1), x(call.values[0].floats), y(call.values[1].floats) {
      const Box box = pipesim::box_of(call.op.uses[0], call.op, call.ranges);
      columns = box[box.dims() - 1].length();
      if (result > 2) weights = call.values[2].floats;
    }
    [[nodiscard]] float weight(std::int64_t i) const { return weights == nullptr ? 1 : weights[i / columns]; }
    std::size_t result;
    const float *x, *y, *weights = nullptr;
    std::int64_t columns = 0;
  };

  template <Activation f>
  static void send_back(const ShardCall& call, const Operands& o) {
    const Piece &d = call.gradients[o.result], &dx = call.gradients[0], &dy = call.gradients[1];
    for (std::int64_t i = 0; i < d.elements(); ++i) {
      const float of_product = d.floats[i] * o.weight(i);
      if (dx.present()) dx.floats[i] = of_product * o.y[i] * activation_slope_at<f>(o.x[i]);
      if (dy.present()) dy.floats[i] = of_product * activation_value<f>(o.x[i]);
    }
    if (o.weights == nullptr || !call.gradients[2].present()) return;
    const Piece& dw = call.gradients[2];
    for (std::int64_t row = 0; row < dw.elements(); ++row) {
      double sum = 0;
      for_each_term(o.columns, call.step.sums, [&](std::int64_t j) {
        const std::int64_t i = row * o.columns + j;
        sum += static_cast<double>(d.floats[i]) * static_cast<double>(activation_value<f>(o.x[i]) * o.y[i]);
      });
      dw.floats[row] = static_cast<float>(sum);
    }
  }
};

}  // namespace

std::vector<KernelEntry> binary_kernels() {
  static const Add add;
  static const Mul mul;
  static const Combined<Difference> difference;
  static const Combined<Quotient> quotient;
  static const Combined<Maximum> maximum;
  static const Combined<Minimum> minimum;
  static const Swiglu swiglu;
  return {{"add", &add},         {"sub", &difference},  {"mul", &mul},      {"div", &quotient},
          {"maximum", &maximum}, {"minimum", &minimum}, {"swiglu", &swiglu}};
}

}  // namespace pipesim::cpu
