#include <cmath>
#include <functional>

#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

struct DefinedFunction {
  const char* kind;
  std::function<double(double)> value;
  Attributes attributes = {};
  double center = 0, reach = 1;  ///< of the inputs that it is tried with
};

double defined_softplus(double x) { return std::log(1 + std::exp(x)); }
double defined_logistic(double x) { return 1 / (1 + std::exp(-x)); }
double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

const std::vector<DefinedFunction>& defined_functions() {
  static const std::vector<DefinedFunction> functions = {
      {"relu6", [](double x) { return between(x, 0, 6); }, {}, 3, 6},
      {"hardswish", [](double x) { return x * between(x + 3, 0, 6) / 6; }, {}, 0, 5},
      {"hardsigmoid", [](double x) { return between(x + 3, 0, 6) / 6; }, {}, 0, 5},
      {"mish", [](double x) { return x * std::tanh(defined_softplus(x)); }, {}, 0, 4},
      {"softplus", defined_softplus, {}, 5, 20},
      {"quick_gelu", [](double x) { return x * defined_logistic(1.702 * x); }, {}, 0, 4},
      {"exp", [](double x) { return std::exp(x); }},
      {"log", [](double x) { return std::log(x); }, {}, 2, 1.5},
      {"sqrt", [](double x) { return std::sqrt(x); }, {}, 2, 1.5},
      {"reciprocal", [](double x) { return 1 / x; }, {}, 2, 1.5},
      {"abs", [](double x) { return x < 0 ? -x : x; }},
      {"sin", [](double x) { return std::sin(x); }, {}, 0, 4},
      {"cos", [](double x) { return std::cos(x); }, {}, 0, 4},
      {"erf", [](double x) { return std::erf(x); }, {}, 0, 2},
      {"leaky_relu", [](double x) { return x > 0 ? x : 0.2 * x; }, {{"slope", 0.2}}},
      {"elu", [](double x) { return x > 0 ? x : 1.5 * (std::exp(x) - 1); }, {{"alpha", 1.5}}},
      {"clip", [](double x) { return between(x, -0.5, 0.25); }, {{"low", -0.5}, {"high", 0.25}}},
      {"affine", [](double x) { return 3 * x - 0.5; }, {{"factor", 3.0}, {"offset", -0.5}}},
      {"power", [](double x) { return std::pow(x, 2.5); }, {{"exponent", 2.5}}, 2, 1.5}};
  return functions;
}

TEST(PointwiseKernels, ComputeEveryFunction) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes these functions";
  for (const DefinedFunction& function : defined_functions()) {
    Bench bench;
    const auto define = [&](const Operator&, WholeTensors& t) {
      for (std::size_t i = 0; i < t[0].elements.size(); ++i)
        t[1].elements[i] = function.value(t[0].elements[i]);
    };
    const auto spread = [&](WholeTensors& t) {
      for (double& x : t[0].elements)
        x = static_cast<double>(static_cast<float>(function.center + function.reach * x));
    };
    check_kernel({bench.op(function.kind, {bench.x({4, 5, 6})}, function.attributes), define, 0, spread});
  }
}

TEST(PointwiseKernels, OfLargeInputsStayFinite) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes these functions";
  for (const char* kind : {"softplus", "mish", "quick_gelu"}) {
    Bench bench;
    const Operator op = bench.op(kind, {bench.x({4})});
    ShardRun run(*tested_kernels(kind).at(0).kernel, op, single_device(op, DeviceId(0)), {}, {true, false});
    WholeTensors whole{filled(op.uses[0], 0), filled(op.uses[1], 0)};
    whole[0].elements = {-300, 90, 300, 1000};
    const WholeTensors results = run.forward(whole);
    for (const double y : results[1].elements) EXPECT_TRUE(std::isfinite(y)) << kind;
    const auto gradients = run.backward({WholeTensor{}, filled(op.uses[1], 1)}, false);
    for (const double slope : gradients[0].elements) EXPECT_TRUE(std::isfinite(slope)) << kind;
  }
}

/// The element of y for element i of x, [4, 5, 6]: y is [5, 1] or as x.
void check_combination(const char* kind, const std::function<double(double, double)>& value) {
  for (const Sizes& shape : {Sizes{4, 5, 6}, Sizes{5, 1}}) {
    Bench bench;
    const bool narrow = shape.size() == 2;
    const auto define = [&](const Operator&, WholeTensors& t) {
      for (std::size_t i = 0; i < t[0].elements.size(); ++i)
        t[2].elements[i] = value(t[0].elements[i], t[1].elements[narrow ? i / 6 % 5 : i]);
    };
    const auto away_from_zero = [](WholeTensors& t) {
      for (double& y : t[1].elements) y = static_cast<double>(static_cast<float>(y < 0 ? y - 0.5 : y + 0.5));
    };
    check_kernel({bench.op(kind, {bench.x({4, 5, 6}), bench.x(shape)}), define, 0, away_from_zero});
  }
}

TEST(PointwiseKernels, CombineTwoOperands) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes these functions";
  check_combination("sub", [](double x, double y) { return x - y; });
  check_combination("div", [](double x, double y) { return x / y; });
  check_combination("maximum", [](double x, double y) { return std::max(x, y); });
  check_combination("minimum", [](double x, double y) { return std::min(x, y); });
}

TEST(PointwiseKernels, MultiplyByTheActivationOfTheOther) {
  for (const char* gate : {"silu", "gelu", "relu2", "sigmoid"}) {
    const auto define = [gate](const Operator&, WholeTensors& t) {
      for (std::size_t i = 0; i < t[0].elements.size(); ++i)
        t[2].elements[i] = defined_activation(gate, t[0].elements[i]) * t[1].elements[i];
    };
    Bench bench;
    check_kernel(
        {bench.op("swiglu", {bench.x({4, 5, 6}), bench.x({4, 5, 6})}, {{"activation", gate}}), define});
  }
}

TEST(PointwiseKernels, WeighRowsOfGatedProducts) {
  for (const char* gate : {"silu", "gelu"}) {
    const auto define = [gate](const Operator&, WholeTensors& t) {
      const auto columns = static_cast<std::size_t>(t[0].shape.back());
      for (std::size_t i = 0; i < t[0].elements.size(); ++i) {
        t[3].elements[i] =
            defined_activation(gate, t[0].elements[i]) * t[1].elements[i] * t[2].elements[i / columns];
      }
    };
    for (const std::int64_t columns : {1, 3, 6}) {
      Bench bench;
      check_kernel(
          {bench.op("swiglu", {bench.x({4, 5, columns}), bench.x({4, 5, columns}), bench.x({4, 5, 1})},
                    {{"activation", gate}}),
           define});
    }
  }
}

double defined_mean(const WholeTensors& t, const std::function<double(double, double)>& value) {
  double sum = 0;
  for (std::size_t i = 0; i < t[0].elements.size(); ++i) sum += value(t[0].elements[i], t[1].elements[i]);
  return sum / static_cast<double>(t[0].elements.size());
}

TEST(MeanLossKernels, AverageOverAllElements) {
  if (!tests_all_kernels()) GTEST_SKIP() << "no GPU kernel computes these losses";
  const auto check = [](const char* kind, const std::function<double(double, double)>& value) {
    Bench bench;
    const auto define = [&](const Operator&, WholeTensors& t) { t[2].elements[0] = defined_mean(t, value); };
    check_kernel({bench.op(kind, {bench.x({4, 5, 3}), bench.x({4, 5, 3})}), define});
  };
  check("squared_error", [](double x, double y) { return (x - y) * (x - y); });
  check("binary_cross_entropy", [](double x, double y) {
    return -y * std::log(defined_logistic(x)) - (1 - y) * std::log(1 - defined_logistic(x));
  });
}

}  // namespace
}  // namespace pipesim::cpu
