#include <numeric>

#include "models/onnx/writer/kinds.h"

namespace pipesim {
namespace {

void put_named(OnnxOperator& o) {
  static const std::map<std::string, std::string> names = {{"abs", "Abs"},
                                                           {"add", "Add"},
                                                           {"cos", "Cos"},
                                                           {"div", "Div"},
                                                           {"erf", "Erf"},
                                                           {"exp", "Exp"},
                                                           {"hardswish", "HardSwish"},
                                                           {"log", "Log"},
                                                           {"maximum", "Max"},
                                                           {"minimum", "Min"},
                                                           {"mul", "Mul"},
                                                           {"reciprocal", "Reciprocal"},
                                                           {"sin", "Sin"},
                                                           {"softplus", "Softplus"},
                                                           {"sqrt", "Sqrt"},
                                                           {"sub", "Sub"}};
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < o.inputs(); ++i) operands.push_back(o.input(i));
  o.give(o.add(names.at(o.op.kind), operands));
}

void put_activation(OnnxOperator& o) { o.give(o.activation(o.input(0), o.op.kind)); }

void put_hardsigmoid(OnnxOperator& o) {
  o.give(o.add("HardSigmoid", {o.input(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
}
void put_leaky_relu(OnnxOperator& o) {
  o.give(o.add("LeakyRelu", {o.input(0)}, {{"alpha", o.real("slope")}}));
}
void put_elu(OnnxOperator& o) { o.give(o.add("Elu", {o.input(0)}, {{"alpha", o.real("alpha")}})); }
void put_mish(OnnxOperator& o) {
  o.give(o.add("Mul", {o.input(0), o.add("Tanh", {o.add("Softplus", {o.input(0)})})}));
}
void put_quick_gelu(OnnxOperator& o) {
  constexpr double kFactor = 1.702;
  o.give(o.add("Mul", {o.input(0), o.add("Sigmoid", {o.add("Mul", {o.input(0), o.number(kFactor)})})}));
}
void put_swiglu(OnnxOperator& o) {
  std::string y = o.add("Mul", {o.activation(o.input(0), o.word("activation")), o.input(1)});
  if (o.inputs() > 2) y = o.add("Mul", {y, o.input(2)});
  o.give(y);
}
void put_relu6(OnnxOperator& o) { o.give(o.add("Clip", {o.input(0), o.number(0), o.number(6)})); }
void put_clip(OnnxOperator& o) {
  o.give(o.add("Clip", {o.input(0), o.number(o.real("low")), o.number(o.real("high"))}));
}
void put_affine(OnnxOperator& o) {
  const double factor = o.real("factor"), offset = o.real("offset");
  std::string y = o.input(0);
  if (factor != 1) y = o.add("Mul", {y, o.number(factor)});
  if (offset != 0) y = o.add("Add", {y, o.number(offset)});
  o.give(y);
}
void put_power(OnnxOperator& o) { o.give(o.add("Pow", {o.input(0), o.number(o.real("exponent"))})); }

void put_dropout(OnnxOperator& o) { o.give(o.dropped(o.input(0), o.real("rate"))); }

void put_softmax(OnnxOperator& o) { o.give(o.add("Softmax", {o.input(0)}, {{"axis", -1}})); }

void put_reduce(OnnxOperator& o) {
  const std::string mode = o.word("mode");
  const OnnxDims axes = o.list("axes");
  if (mode == "sum") {
    o.give(o.add("ReduceSum", {o.input(0), o.draft.integers(axes)}, {{"keepdims", 0}}));
  } else {
    o.give(
        o.add(mode == "max" ? "ReduceMax" : "ReduceMean", {o.input(0)}, {{"axes", axes}, {"keepdims", 0}}));
  }
}

std::string in_float32(OnnxOperator& o, const std::string& value) {
  return o.type() == DataType::Float32 || o.type() == DataType::TensorFloat32
             ? value
             : o.cast(value, DataType::Float32);
}

std::string mean_of_all(OnnxOperator& o, const std::string& value) {
  OnnxDims axes(o.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  return o.add("ReduceMean", {value}, {{"axes", axes}, {"keepdims", 0}});
}

void put_squared_error(OnnxOperator& o) {
  const std::string difference = o.add("Sub", {in_float32(o, o.input(0)), in_float32(o, o.input(1))});
  o.give(mean_of_all(o, o.add("Mul", {difference, difference})));
}

// −t · ln σ(x) − (1 − t) · ln(1 − σ(x)) = ln(1 + exp(x)) − t · x.
void put_binary_cross_entropy(OnnxOperator& o) {
  const std::string x = in_float32(o, o.input(0)), target = in_float32(o, o.input(1));
  const std::string softplus = o.draft.add(o.op.name, "Softplus", {x}).front();
  o.give(mean_of_all(o, o.add("Sub", {softplus, o.add("Mul", {target, x})})));
}

// ONNX has the classes in dim 1.
void put_cross_entropy_of(OnnxOperator& o, std::string logits, std::size_t rank) {
  logits = in_float32(o, logits);
  if (rank > 2) {
    OnnxDims order{0, static_cast<std::int64_t>(rank) - 1};
    for (std::size_t i = 1; i + 1 < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
    logits = o.transpose(logits, order);
  }
  std::string labels = o.input(1);
  if (o.input_type(1) == DataType::UInt8) labels = o.cast(labels, DataType::Int64);
  o.give(o.add("SoftmaxCrossEntropyLoss", {logits, labels}, {{"reduction", "mean"}}));
}

void put_cross_entropy(OnnxOperator& o) { put_cross_entropy_of(o, o.input(0), o.shape(0).size()); }

void put_linear_cross_entropy(OnnxOperator& o) {
  std::string w = o.weight(0);
  if (o.flag("transpose_weight")) w = o.transpose(w, {1, 0});
  std::string logits = o.add("MatMul", {o.input(0), w});
  if (o.flag("bias")) logits = o.add("Add", {logits, o.weight(1)});
  put_cross_entropy_of(o, logits, o.shape(0).size());
}

}  // namespace

OnnxKinds onnx_pointwise_kinds() {
  OnnxKinds kinds = {{"affine", put_affine},
                     {"binary_cross_entropy", put_binary_cross_entropy},
                     {"clip", put_clip},
                     {"cross_entropy", put_cross_entropy},
                     {"dropout", put_dropout},
                     {"elu", put_elu},
                     {"hardsigmoid", put_hardsigmoid},
                     {"leaky_relu", put_leaky_relu},
                     {"linear_cross_entropy", put_linear_cross_entropy},
                     {"mish", put_mish},
                     {"power", put_power},
                     {"quick_gelu", put_quick_gelu},
                     {"reduce", put_reduce},
                     {"relu6", put_relu6},
                     {"softmax", put_softmax},
                     {"squared_error", put_squared_error},
                     {"swiglu", put_swiglu}};
  for (const char* kind : {"abs", "add", "cos", "div", "erf", "exp", "hardswish", "log", "maximum", "minimum",
                           "mul", "reciprocal", "sin", "softplus", "sqrt", "sub"})
    kinds[kind] = put_named;
  for (const char* kind : {"gelu", "relu", "relu2", "sigmoid", "silu", "tanh"}) kinds[kind] = put_activation;
  return kinds;
}

}  // namespace pipesim
