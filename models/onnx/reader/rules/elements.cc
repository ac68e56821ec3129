#include <cmath>
#include <limits>

#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

bool give_unary(OnnxNode& node, const char* kind, const Attributes& attributes = {}) {
  node.give(node.each(kind, node.in(0), attributes));
  return true;
}

/// Element-wise functions that pipesim has under a name of its own.
bool write_function(OnnxNode& node) {
  static const std::unordered_map<std::string, const char*> kinds{{"Relu", "relu"},
                                                                  {"Sigmoid", "sigmoid"},
                                                                  {"Tanh", "tanh"},
                                                                  {"Exp", "exp"},
                                                                  {"Log", "log"},
                                                                  {"Sqrt", "sqrt"},
                                                                  {"Reciprocal", "reciprocal"},
                                                                  {"Abs", "abs"},
                                                                  {"Sin", "sin"},
                                                                  {"Cos", "cos"},
                                                                  {"Erf", "erf"},
                                                                  {"Softplus", "softplus"},
                                                                  {"HardSwish", "hardswish"},
                                                                  {"Mish", "mish"},
                                                                  {"Gelu", "gelu"}};
  return give_unary(node, kinds.at(node.op()));
}

bool write_leaky_relu(OnnxNode& node) {
  return give_unary(node, "leaky_relu", {{"slope", node.real("alpha", 0.01)}});
}

bool write_elu(OnnxNode& node) { return give_unary(node, "elu", {{"alpha", node.real("alpha", 1)}}); }

bool write_selu(OnnxNode& node) {
  constexpr double alpha = 1.67326319217681884765625, gamma = 1.05070102214813232421875;
  const OnnxValue elu = node.each("elu", node.in(0), {{"alpha", node.real("alpha", alpha)}}, "elu");
  node.give(node.affine(elu, node.real("gamma", gamma)));
  return true;
}

bool write_celu(OnnxNode& node) {
  const double alpha = node.real("alpha", 1);
  const OnnxValue scaled = node.affine(node.in(0), 1 / alpha, 0, "scale");
  node.give(node.affine(node.each("elu", scaled, {{"alpha", 1.0}}, "elu"), alpha));
  return true;
}

bool write_hard_sigmoid(OnnxNode& node) {
  const double alpha = node.real("alpha", 0.2), beta = node.real("beta", 0.5);
  constexpr double tolerance = 1e-5;
  if (std::abs(alpha - 1.0 / 6) < tolerance && beta == 0.5) return give_unary(node, "hardsigmoid");
  const OnnxValue line = node.affine(node.in(0), alpha, beta, "line");
  node.give(node.each("clip", line, {{"low", 0.0}, {"high", 1.0}}));
  return true;
}

bool write_softsign(OnnxNode& node) {
  const OnnxValue below = node.affine(node.each("abs", node.in(0), {}, "abs"), 1, 1, "below");
  node.give(node.binary("div", node.in(0), below));
  return true;
}

bool write_swish(OnnxNode& node) {
  if (node.real("alpha", 1) != 1) return false;
  return give_unary(node, "silu");
}

/// Below 0 a slope that may be a weight: max(x, 0) + slope · min(x, 0).
bool write_prelu(OnnxNode& node) {
  const OnnxValue above = node.each("relu", node.in(0), {}, "above");
  const OnnxValue below = node.each("clip", node.in(0), {{"low", -3e38}, {"high", 0.0}}, "below");
  node.give(node.binary("add", above, node.binary("mul", below, node.in(1), "slope")));
  return true;
}

bool write_clip(OnnxNode& node) {
  constexpr double most = 3e38;
  double low = node.real("min", -most), high = node.real("max", most);
  for (const std::size_t bound : {1, 2}) {
    if (!node.has(bound)) continue;
    const auto number = node.setting(bound);
    if (!number) return false;
    (bound == 1 ? low : high) = *number;
  }
  low = std::max(low, -most);
  high = std::min(high, most);
  if (low > high) return false;
  return give_unary(node, "clip", {{"low", low}, {"high", high}});
}

bool write_neg(OnnxNode& node) {
  node.give(node.affine(node.in(0), -1));
  return true;
}

bool write_same(OnnxNode& node) {
  node.give(node.in(0));
  return true;
}

bool write_cast(OnnxNode& node) {
  if (!is_floating_type(static_cast<int>(node.integer("to", 0)))) return false;
  return write_same(node);
}

bool write_dropout(OnnxNode& node) {
  double rate = node.has(1) ? node.setting(1).value_or(0.5) : node.real("ratio", 0.5);
  // Files that were exported for inference keep the node, and it does nothing when they are trained no more.
  const bool trained = !node.has(2) || node.setting(2).value_or(1) != 0;
  if (node.wanted(1)) return false;
  if (!trained || rate <= 0 || rate >= 1) return write_same(node);
  return give_unary(node, "dropout", {{"rate", rate}});
}

/// A loss that is added to another, or scaled, stays what it was: the loss of a model is the sum of all.
bool write_sum_of_losses(OnnxNode& node) {
  const OnnxValue* loss = nullptr;
  for (std::size_t i = 0; i < node.count(); ++i) {
    if (node.in(i).loss) {
      loss = &node.in(i);
    } else if (node.in(i).form != OnnxForm::Constant) {
      return false;
    }
  }
  if (loss == nullptr) return false;
  node.give(*loss);
  return true;
}

bool is_zero(const OnnxValue& value) {
  if (value.form != OnnxForm::Constant || value.constant->size() > 1U << 20U) return false;
  for (std::size_t i = 0; i < value.constant->size(); ++i) {
    if (value.constant->real(i) != 0) return false;
  }
  return value.constant->size() > 0;
}

bool same_rank(const OnnxValue& constant, const OnnxValue& x) {
  return constant.shape.size() <= x.shape.size();
}

bool write_add(OnnxNode& node) {
  if (write_sum_of_losses(node)) return true;
  for (const std::size_t i : {0, 1}) {
    const OnnxValue &constant = node.in(i), &x = node.in(1 - i);
    if (const auto number = node.number(i); number && same_rank(constant, x)) {
      node.give(node.affine(x, 1, *number));
      return true;
    }
    if (is_zero(constant) && same_rank(constant, x)) {
      node.give(node.tensor(x));
      return node.results().back().shape.size() == std::max(constant.shape.size(), x.shape.size());
    }
  }
  node.give(node.binary("add", node.in(0), node.in(1)));
  return true;
}

bool write_sub(OnnxNode& node) {
  if (const auto number = node.number(1); number && same_rank(node.in(1), node.in(0))) {
    node.give(node.affine(node.in(0), 1, -*number));
  } else if (const auto first = node.number(0); first && same_rank(node.in(0), node.in(1))) {
    node.give(node.affine(node.in(1), -1, *first));
  } else {
    node.give(node.binary("sub", node.in(0), node.in(1)));
  }
  return true;
}

bool write_mul(OnnxNode& node) {
  if (write_sum_of_losses(node)) return true;
  for (const std::size_t i : {0, 1}) {
    if (const auto number = node.number(i); number && same_rank(node.in(i), node.in(1 - i))) {
      node.give(node.affine(node.in(1 - i), *number));
      return true;
    }
  }
  node.give(node.binary("mul", node.in(0), node.in(1)));
  return true;
}

bool write_div(OnnxNode& node) {
  if (write_sum_of_losses(node)) return true;
  if (const auto number = node.number(1); number && same_rank(node.in(1), node.in(0))) {
    if (*number == 0) return false;
    node.give(node.affine(node.in(0), 1 / *number));
  } else if (const auto first = node.number(0); first && same_rank(node.in(0), node.in(1))) {
    node.give(node.affine(node.each("reciprocal", node.in(1), {}, "reciprocal"), *first));
  } else {
    node.give(node.binary("div", node.in(0), node.in(1)));
  }
  return true;
}

bool write_pow(OnnxNode& node) {
  if (const auto exponent = node.number(1); exponent && same_rank(node.in(1), node.in(0))) {
    if (*exponent == 1) return write_same(node);
    if (*exponent == 0.5) return give_unary(node, "sqrt");
    if (*exponent == -1) return give_unary(node, "reciprocal");
    return give_unary(node, "power", {{"exponent", *exponent}});
  }
  const auto base = node.number(0);
  if (!base || *base <= 0 || !same_rank(node.in(0), node.in(1))) return false;
  node.give(node.each("exp", node.affine(node.in(1), std::log(*base), 0, "scale")));
  return true;
}

/// Writes operators of any number of tensors: Sum, Mean, Max, Min.
bool write_variadic(OnnxNode& node) {
  if (write_sum_of_losses(node)) return true;
  const char* kind = node.op() == "Max" ? "maximum" : node.op() == "Min" ? "minimum" : "add";
  OnnxValue result = node.tensor(node.in(0));
  for (std::size_t i = 1; i < node.count(); ++i) result = node.binary(kind, result, node.in(i));
  node.give(node.op() == "Mean" ? node.affine(result, 1.0 / static_cast<double>(node.count()), 0, "mean")
                                : result);
  return true;
}

bool is_fill(const OnnxValue& value) {
  if (value.form != OnnxForm::Constant || value.constant->size() == 0) return false;
  constexpr double masked = -1e4;
  for (std::size_t i = 0; i < value.constant->size(); ++i) {
    if (value.constant->real(i) > masked) return false;
  }
  return true;
}

/// Writes scores where a mask that comes in says so, and very negative numbers elsewhere.
bool write_where(OnnxNode& node) {
  const OnnxForm form = node.in(0).form;
  if (form != OnnxForm::Constant && form != OnnxForm::Data) return false;
  for (const std::size_t kept : {1, 2}) {
    if (!is_fill(node.in(3 - kept))) continue;
    node.give(node.binary("add", node.in(kept), node.mask(node.in(0), kept == 2)));
    return true;
  }
  // Two tensors are each multiplied by a mask of ones and zeros, and added.
  const OnnxValue seen = node.data(node.in(0).name + ".seen", node.in(0).shape, DataType::Float32);
  const OnnxValue yes = node.binary("mul", node.in(1), seen, "yes");
  const OnnxValue no = node.binary("mul", node.in(2), node.affine(seen, -1, 1, "other"), "no");
  node.give(node.binary("add", yes, no));
  return true;
}

/// Writes x times a triangle of ones.
bool write_triangle(OnnxNode& node) {
  const OnnxShape& shape = node.in(0).shape;
  if (shape.size() < 2) return false;
  const OnnxValue triangle =
      node.data(node.name() + ".triangle", OnnxShape(shape.end() - 2, shape.end()), DataType::Float32);
  node.give(node.binary("mul", node.in(0), triangle));
  return true;
}

}  // namespace

OnnxRules element_rules() {
  OnnxRules rules{{"LeakyRelu", write_leaky_relu},
                  {"Elu", write_elu},
                  {"Selu", write_selu},
                  {"Celu", write_celu},
                  {"HardSigmoid", write_hard_sigmoid},
                  {"Softsign", write_softsign},
                  {"Swish", write_swish},
                  {"PRelu", write_prelu},
                  {"Clip", write_clip},
                  {"Neg", write_neg},
                  {"Identity", write_same},
                  {"Cast", write_cast},
                  {"CastLike", write_same},
                  {"Dropout", write_dropout},
                  {"Add", write_add},
                  {"Sub", write_sub},
                  {"Mul", write_mul},
                  {"Div", write_div},
                  {"Pow", write_pow},
                  {"Where", write_where},
                  {"Trilu", write_triangle}};
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Abs", "Sin", "Cos",
                         "Erf", "Softplus", "HardSwish", "Mish", "Gelu"})
    rules[op] = write_function;
  for (const char* op : {"Sum", "Mean", "Max", "Min"}) rules[op] = write_variadic;
  return rules;
}

const OnnxRules& onnx_rules() {
  static const OnnxRules all = [] {
    OnnxRules rules;
    for (const auto& family :
         {element_rules(), shape_rules(), product_rules(), image_rules(), norm_rules(), reduction_rules()})
      rules.insert(family.begin(), family.end());
    return rules;
  }();
  return all;
}

}  // namespace pipesim
