#include "executor/operators/activation.h"

#include <string>

#include "executor/operators/attributes.h"
#include "sim/base/errors.h"

namespace pipesim {

Activation activation_named(std::string_view name) {
  using enum Activation;
  if (name == "none") return None;
  if (name == "relu") return Relu;
  if (name == "gelu") return Gelu;
  if (name == "silu") return Silu;
  if (name == "tanh") return Tanh;
  if (name == "sigmoid") return Sigmoid;
  if (name == "relu2") return Relu2;
  throw InternalError("no activation " + std::string(name));
}

Activation fused_activation(const Operator& op) { return activation_named(word_of(op, "activation")); }

Activation gate_activation(const Operator& op) {
  return op.attributes.contains("activation") ? fused_activation(op) : Activation::Silu;
}

}  // namespace pipesim
