#include <algorithm>
#include <numeric>

#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

using Integers = std::vector<std::int64_t>;

bool write_reduction(OnnxNode& node) {
  const bool as_input = node.opset() >= (node.op() == "ReduceSum" ? 13 : 18);
  const auto given = as_input             ? node.values(1)
                     : node.given("axes") ? std::optional(node.integers("axes"))
                                          : std::nullopt;
  if (as_input && node.has(1) && !given) return false;
  Integers axes;
  if (!given || given->empty()) {
    if (node.integer("noop_with_empty_axes", 0) != 0) {
      node.give(node.in(0));
      return true;
    }
    axes.resize(node.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (const std::int64_t one : given.value_or(Integers())) {
    const auto axis = OnnxNode::axis(one, node.rank());
    if (!axis) return false;
    axes.push_back(*axis);
  }
  std::ranges::sort(axes);
  if (node.in(0).loss) {
    node.give(node.in(0));
    return true;
  }
  const bool keep = node.integer("keepdims", 1) != 0;
  const std::string& op = node.op();
  OnnxValue x = node.tensor(0);
  if (op == "ReduceSum" || op == "ReduceMean" || op == "ReduceMax") {
    node.give(node.reduced(x, axes, op == "ReduceSum" ? "sum" : op == "ReduceMean" ? "mean" : "max", keep));
  } else if (op == "ReduceMin") {
    node.give(node.affine(node.reduced(node.affine(x, -1, 0, "minus"), axes, "max", keep), -1, 0, "least"));
  } else if (op == "ReduceL1") {
    node.give(node.reduced(node.write("abs", {x}, {}, "abs"), axes, "sum", keep));
  } else if (op == "ReduceL2" || op == "ReduceSumSquare") {
    const OnnxValue squares = node.write("power", {x}, {{"exponent", 2.0}}, "square");
    const OnnxValue sum = node.reduced(squares, axes, "sum", keep, "sum");
    node.give(op == "ReduceL2" ? node.write("sqrt", {sum}) : sum);
  } else if (op == "ReduceLogSum") {
    node.give(node.write("log", {node.reduced(x, axes, "sum", keep, "sum")}));
  } else if (op == "ReduceLogSumExp") {
    const OnnxValue sum = node.reduced(node.write("exp", {x}, {}, "exp"), axes, "sum", keep, "sum");
    node.give(node.write("log", {sum}));
  } else {
    return false;
  }
  return true;
}

/// Logits with the classes last, and with the dims that they had before they were flattened.
OnnxValue rows_of_logits(OnnxNode& node, const OnnxValue& logits) {
  OnnxValue x = node.tensor(logits);
  if (x.shape.size() > 2) {
    Integers order(x.shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    x = node.transposed(x, order, "classes_last");
  }
  const auto* made = node.writer().maker(x.tensor);
  if (made != nullptr && made->request.kind == "reshape") {
    const TensorId source = made->request.inputs[0];
    const OnnxShape& shape = node.writer().shape(source);
    if (!shape.empty() && shape.back() == x.shape.back() && shape.size() > x.shape.size()) {
      x.tensor = source;
      x.shape = shape;
    }
  }
  return x;
}

bool write_cross_entropy(OnnxNode& node, const OnnxValue& logits) {
  if (node.wanted(1)) return false;
  const OnnxValue& labels = node.in(1);
  if (node.text("reduction", "mean") == "none" || logits.shape.size() < 2) return false;
  if (labels.form != OnnxForm::Data && labels.form != OnnxForm::Constant) return false;
  const OnnxValue x = rows_of_logits(node, logits);
  const OnnxShape rows(x.shape.begin(), x.shape.end() - 1);
  OnnxValue loss = node.write("cross_entropy", {x, node.data(labels.name, rows, DataType::Int64)});
  loss.loss = true;
  node.give(loss);
  return true;
}

bool write_softmax_cross_entropy(OnnxNode& node) { return write_cross_entropy(node, node.in(0)); }

/// Takes the loss only if its input is a log softmax.
bool write_nll(OnnxNode& node) {
  if (node.in(0).form != OnnxForm::Tensor) return false;
  const ModelWriter& writer = node.writer();
  TensorId tensor = node.in(0).tensor;
  Integers order;
  if (const auto* turned = writer.maker(tensor); turned != nullptr && turned->request.kind == "transpose") {
    order = std::get<Integers>(turned->request.attributes.at("order"));
    tensor = turned->request.inputs[0];
  }
  const auto* log = writer.maker(tensor);
  if (log == nullptr || log->request.kind != "log") return false;
  const auto* softmax = writer.maker(log->request.inputs[0]);
  if (softmax == nullptr || softmax->request.kind != "softmax") return false;
  OnnxValue logits = node.in(0);
  logits.tensor = softmax->request.inputs[0];
  logits.shape = writer.shape(logits.tensor);
  if (!order.empty()) logits = node.transposed(logits, order, "classes_second");
  return write_cross_entropy(node, logits);
}

}  // namespace

OnnxRules reduction_rules() {
  OnnxRules rules{{"SoftmaxCrossEntropyLoss", write_softmax_cross_entropy},
                  {"NegativeLogLikelihoodLoss", write_nll}};
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    rules[op] = write_reduction;
  return rules;
}

}  // namespace pipesim
