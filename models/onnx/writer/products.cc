#include "models/onnx/writer/kinds.h"

namespace pipesim {
namespace {

OnnxDims joined_dims(OnnxDims a, const OnnxDims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The weight as [in, out], the dims of either merged.
std::string weight_matrix(OnnxOperator& o, std::size_t contracted, std::size_t made) {
  const bool transposed = o.flag("transpose_weight");
  const OnnxDims& shape = o.weight_shape(0);
  const std::size_t first = transposed ? made : contracted;
  std::string w = o.weight(0);
  if (shape.size() > 2) {
    w = o.reshape(w, {product_of_dims(shape, 0, first), product_of_dims(shape, first, shape.size())});
  }
  return transposed ? o.transpose(w, {1, 0}) : w;
}

void put_linear(OnnxOperator& o) {
  const auto contracted = static_cast<std::size_t>(o.integer("contract"));
  const OnnxDims out = o.list("out"), &shape = o.shape(0);
  const OnnxDims rows{shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(contracted)};
  std::string x = o.input(0);
  if (contracted > 1)
    x = o.reshape(x, joined_dims(rows, {product_of_dims(shape, rows.size(), shape.size())}));
  std::string y = o.add("MatMul", {x, weight_matrix(o, contracted, out.size())});
  if (out.size() > 1) y = o.reshape(y, joined_dims(rows, out));
  if (o.flag("bias")) y = o.add("Add", {y, o.weight(1)});
  o.give_activated(y);
}

void put_matmul(OnnxOperator& o) {
  std::string q = o.input(1);
  if (o.flag("transpose_q")) {
    OnnxDims order;
    for (std::size_t i = 0; i < o.shape(1).size(); ++i) order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[order.size() - 2], order.back());
    q = o.transpose(q, order);
  }
  o.give(o.add("MatMul", {o.input(0), q}));
}

void put_expert_linear(OnnxOperator& o) {
  std::string y = o.add("MatMul", {o.input(0), o.weight(0)});
  if (o.op.attributes.contains("bias")) y = o.add("Add", {y, o.unsqueeze(o.weight(1), {1})});
  o.give_activated(y);
}

void put_einsum(OnnxOperator& o) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < o.inputs(); ++i) operands.push_back(o.input(i));
  o.give(o.add("Einsum", operands, {{"equation", o.word("equation")}}));
}

/// The gates come as input, forget, cell and output.
void put_lstm_cell(OnnxOperator& o) {
  const std::int64_t hidden = o.integer("hidden"), gates = 4 * hidden;
  const auto product = [&](std::size_t input, std::size_t weight) {
    const std::string w = o.reshape(o.weight(weight), {o.weight_shape(weight)[0], gates});
    return o.add("MatMul", {o.input(input), w});
  };
  const std::string x = product(0, 0), h = product(1, 1);
  const std::string all = o.add("Add", {o.add("Add", {x, h}), o.reshape(o.weight(2), {gates})});
  const auto part =
      o.add_several("Split", {all, o.draft.integers({hidden, hidden, hidden, hidden})}, 4, {{"axis", 1}});
  const std::string in = o.add("Sigmoid", {part[0]}), forget = o.add("Sigmoid", {part[1]}),
                    cell = o.add("Tanh", {part[2]}), out = o.add("Sigmoid", {part[3]});
  const std::string c = o.add("Add", {o.add("Mul", {forget, o.input(2)}), o.add("Mul", {in, cell})});
  const std::string y = o.add("Mul", {out, o.add("Tanh", {c})});
  o.give(y, 0);
  o.give(c, 1);
}

void put_embedding(OnnxOperator& o) {
  const bool narrow = o.input_type(0) == DataType::UInt8;
  const std::string indices = narrow ? o.cast(o.input(0), DataType::Int64) : o.input(0);
  const std::string rows = o.add("Gather", {o.weight(0), indices}, {{"axis", 0}});
  if (o.op.kind == "embedding") return o.give(rows);
  if (o.word("mode") == "sum")
    return o.give(o.add("ReduceSum", {rows, o.draft.integers({1})}, {{"keepdims", 0}}));
  o.give(o.add("ReduceMean", {rows}, {{"axes", OnnxDims{1}}, {"keepdims", 0}}));
}

void put_parameter(OnnxOperator& o) { o.give(o.weight(0)); }

}  // namespace

OnnxKinds onnx_product_kinds() {
  return {{"einsum", put_einsum},           {"embedding", put_embedding},
          {"embedding_bag", put_embedding}, {"expert_linear", put_expert_linear},
          {"linear", put_linear},           {"lstm_cell", put_lstm_cell},
          {"matmul", put_matmul},           {"parameter", put_parameter}};
}

}  // namespace pipesim
