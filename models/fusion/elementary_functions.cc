#include "models/fusion/elementary_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

double logistic_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double hard_logistic_of(double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }

/// Hendrycks and Gimpel, 2016: as it is defined, and as it is computed faster.
double gelu_by_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_by_tanh(double x) {
  const double slope = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + std::tanh(slope * (x + 0.044715 * x * x * x)));
}

constexpr ElementFunction plain_elements[] = {
    {"relu", [](double x) { return std::max(x, 0.0); }, true},
    {"relu2", [](double x) { return x > 0 ? x * x : 0; }, true},
    {"gelu", gelu_by_tanh, true},
    {"gelu", gelu_by_erf, true},
    {"silu", [](double x) { return x * logistic_of(x); }, true},
    {"tanh", [](double x) { return std::tanh(x); }, true},
    {"sigmoid", logistic_of, true},
    {"relu6", [](double x) { return std::clamp(x, 0.0, 6.0); }, true},
    {"hardsigmoid", hard_logistic_of, true},
    {"hardswish", [](double x) { return x * hard_logistic_of(x); }, true},
    {"mish", [](double x) { return x * std::tanh(softplus_of(x)); }, true},
    {"softplus", softplus_of, true},
    {"quick_gelu", [](double x) { return x * logistic_of(1.702 * x); }, true},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"reciprocal", [](double x) { return 1 / x; }},
    {"abs", [](double x) { return std::abs(x); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }}};

const ElementFunction* find_function(std::string_view kind) {
  const auto* found = std::ranges::find(plain_elements, kind, &ElementFunction::kind);
  return found == std::end(plain_elements) ? nullptr : found;
}

constexpr std::string_view with_attributes[] = {"affine", "power", "clip", "leaky_relu", "elu"};
constexpr std::string_view of_two[] = {"add", "sub", "mul", "div", "maximum", "minimum"};

}  // namespace

std::span<const ElementFunction> element_functions() { return plain_elements; }

bool is_elementary(std::string_view kind) {
  return std::ranges::find(of_two, kind) != std::end(of_two) ||
         std::ranges::find(with_attributes, kind) != std::end(with_attributes) ||
         find_function(kind) != nullptr;
}

void compute_elements(std::string_view kind, const Attributes& attributes, std::span<const double> x,
                      std::span<const double> y, std::span<double> result) {
  const auto real = [&](const char* name) { return std::get<double>(attributes.at(name)); };
  const auto unary = [&](const auto& function) { std::ranges::transform(x, result.begin(), function); };
  const auto binary = [&](const auto& function) { std::ranges::transform(x, y, result.begin(), function); };
  if (const ElementFunction* function = find_function(kind)) {
    unary(function->value);
  } else if (kind == "add") {
    binary([](double a, double b) { return a + b; });
  } else if (kind == "sub") {
    binary([](double a, double b) { return a - b; });
  } else if (kind == "mul") {
    binary([](double a, double b) { return a * b; });
  } else if (kind == "div") {
    binary([](double a, double b) { return a / b; });
  } else if (kind == "maximum") {
    binary([](double a, double b) { return std::max(a, b); });
  } else if (kind == "minimum") {
    binary([](double a, double b) { return std::min(a, b); });
  } else if (kind == "affine") {
    unary([factor = real("factor"), offset = real("offset")](double a) { return factor * a + offset; });
  } else if (kind == "power") {
    unary([exponent = real("exponent")](double a) { return std::pow(a, exponent); });
  } else if (kind == "clip") {
    unary([low = real("low"), high = real("high")](double a) { return std::clamp(a, low, high); });
  } else if (kind == "leaky_relu") {
    unary([slope = real("slope")](double a) { return a > 0 ? a : slope * a; });
  } else if (kind == "elu") {
    unary([alpha = real("alpha")](double a) { return a > 0 ? a : alpha * std::expm1(a); });
  } else {
    throw InternalError(fmt::format("\"{}\" is no function of elements", kind));
  }
}

}  // namespace pipesim
