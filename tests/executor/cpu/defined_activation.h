#pragma once

#include <cmath>
#include <string>

#include "tests/executor/cpu/whole_tensor.h"

namespace pipesim::cpu {

inline double defined_activation(const std::string& name, double x) {
  if (name == "relu") return x > 0 ? x : 0;
  if (name == "relu2") return x > 0 ? x * x : 0;
  if (name == "tanh") return std::tanh(x);
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "gelu")
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  return x;
}

/// Applies an operator's attribute "activation" to its result, the last use.
inline void apply_defined_activation(const Operator& op, WholeTensors& t) {
  const std::string& name = std::get<std::string>(op.attributes.at("activation"));
  for (double& y : t.back().elements) y = defined_activation(name, y);
}

}  // namespace pipesim::cpu
