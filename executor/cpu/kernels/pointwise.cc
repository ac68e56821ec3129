#include <algorithm>
#include <cmath>
#include <numbers>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/activation.h"

namespace pipesim::cpu {
namespace {

/// Attributes of the operator, those of them that it has.
struct Constants {
  float first = 0, second = 0;
};

/// Slopes take the input, or the result where `keeps_result`.
struct PointwiseKernel {
  std::string_view kind;
  float (*value)(float, Constants);
  float (*slope)(float, Constants);
  bool keeps_result = false;
  const char* first = nullptr;
  const char* second = nullptr;
};

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

float mish_slope(float x) {
  const float t = std::tanh(softplus(x));
  return t + x * (1 - t * t) * logistic(x);
}

/// x / 6 + 1/2 between 0 and 1.
float hard_logistic(float x) { return std::clamp(x / 6 + 0.5F, 0.0F, 1.0F); }
float hard_logistic_slope(float x) { return x > -3 && x < 3 ? 1.0F / 6 : 0; }

constexpr float quick = 1.702F;

float between_slope(float x, float low, float high) { return x >= low && x <= high ? 1 : 0; }

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

constexpr PointwiseKernel pointwise_functions[] = {
    {"leaky_relu", [](float x, Constants c) { return x > 0 ? x : c.first * x; },
     [](float x, Constants c) { return x > 0 ? 1 : c.first; }, false, "slope"},
    {"elu", [](float x, Constants c) { return x > 0 ? x : c.first * std::expm1(x); },
     [](float x, Constants c) { return x > 0 ? 1 : c.first * std::exp(x); }, false, "alpha"},
    {"clip", [](float x, Constants c) { return std::clamp(x, c.first, c.second); },
     [](float x, Constants c) { return between_slope(x, c.first, c.second); }, false, "low", "high"},
    {"affine", [](float x, Constants c) { return c.first * x + c.second; },
     [](float, Constants c) { return c.first; }, false, "factor", "offset"},
    {"power", [](float x, Constants c) { return std::pow(x, c.first); },
     [](float x, Constants c) { return c.first * std::pow(x, c.first - 1); }, false, "exponent"},
    {"relu6", [](float x, Constants) { return std::clamp(x, 0.0F, 6.0F); },
     [](float x, Constants) { return between_slope(x, 0, 6); }},
    {"hardswish", [](float x, Constants) { return x * hard_logistic(x); },
     [](float x, Constants) { return hard_logistic(x) + x * hard_logistic_slope(x); }},
    {"hardsigmoid", [](float x, Constants) { return hard_logistic(x); },
     [](float x, Constants) { return hard_logistic_slope(x); }},
    {"mish", [](float x, Constants) { return x * std::tanh(softplus(x)); },
     [](float x, Constants) { return mish_slope(x); }},
    {"softplus", [](float x, Constants) { return softplus(x); },
     [](float x, Constants) { return logistic(x); }},
    {"quick_gelu", [](float x, Constants) { return x * logistic(quick * x); },
     [](float x, Constants) {
       const float s = logistic(quick * x);
       return s * (1 + quick * x * (1 - s));
     }},
    {"exp", [](float x, Constants) { return std::exp(x); }, [](float y, Constants) { return y; }, true},
    {"log", [](float x, Constants) { return std::log(x); }, [](float x, Constants) { return 1 / x; }},
    {"sqrt", [](float x, Constants) { return std::sqrt(x); }, [](float y, Constants) { return 0.5F / y; },
     true},
    {"reciprocal", [](float x, Constants) { return 1 / x; }, [](float y, Constants) { return -y * y; }, true},
    {"abs", [](float x, Constants) { return std::abs(x); }, [](float x, Constants) { return sign(x); }},
    {"sin", [](float x, Constants) { return std::sin(x); }, [](float x, Constants) { return std::cos(x); }},
    {"cos", [](float x, Constants) { return std::cos(x); }, [](float x, Constants) { return -std::sin(x); }},
    {"erf", [](float x, Constants) { return std::erf(x); },
     [](float x, Constants) { return 2 * std::numbers::inv_sqrtpi_v<float> * std::exp(-x * x); }}};

/// y = f(x). values: x, y.
class Pointwise : public Kernel {
 public:
  explicit Pointwise(const PointwiseKernel& function) : function_(function) {}

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Constants constants = constants_of(call.op);
    const Piece& x = call.values[0];
    std::transform(x.floats, x.floats + x.elements(), call.values[1].floats,
                   [&](float element) { return function_.value(element, constants); });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Constants constants = constants_of(call.op);
    const Piece& dx = call.gradients[0];
    const float* kept = call.values[function_.keeps_result ? 1 : 0].floats;
    for (std::int64_t i = 0; i < dx.elements(); ++i) {
      const float slope = function_.slope(kept == nullptr ? 0 : kept[i], constants);
      dx.floats[i] = slope * call.gradients[1].floats[i];
    }
  }

 private:
  [[nodiscard]] Constants constants_of(const Operator& op) const {
    const auto read = [&](const char* name) {
      return name == nullptr ? 0 : static_cast<float>(real_of(op, name));
    };
    return {read(function_.first), read(function_.second)};
  }

  PointwiseKernel function_;
};

}  // namespace

std::vector<KernelEntry> pointwise_kernels() {
  static const std::vector<Pointwise> kernels(std::begin(pointwise_functions), std::end(pointwise_functions));
  std::vector<KernelEntry> entries;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    entries.push_back({pointwise_functions[i].kind, &kernels[i]});
  return entries;
}

}  // namespace pipesim::cpu
