#include "models/onnx/writer/kinds.h"

namespace pipesim {
namespace {

constexpr double kNormEpsilon = 1e-5;

void put_batch_norm(OnnxOperator& o) {
  std::vector<std::string> operands{o.input(0)};
  for (std::size_t i = 0; i < o.weights(); ++i) operands.push_back(o.weight(i));
  o.give_activated(o.add("BatchNormalization", operands, {{"epsilon", kNormEpsilon}}));
}

void put_layer_norm(OnnxOperator& o) {
  std::vector<std::string> operands{o.input(0)};
  if (o.flag("affine")) {
    operands.insert(operands.end(), {o.weight(0), o.weight(1)});
  } else {
    operands.push_back(o.draft.filled({o.shape(0).back()}, 1, o.type()));
  }
  o.give(o.add("LayerNormalization", operands, {{"axis", -1}, {"epsilon", kNormEpsilon}}));
}

void put_rms_norm(OnnxOperator& o) {
  const OnnxDims& shape = o.shape(0);
  const bool grouped = o.op.attributes.contains("groups");
  OnnxDims apart = shape;  // each group a row of its own
  if (grouped) apart.back() = o.integer("groups"), apart.push_back(shape.back() / apart.back());
  const std::string x = grouped ? o.reshape(o.input(0), apart) : o.input(0);
  const std::string squares = o.add("Pow", {x, o.number(2)});
  const std::string mean = o.add("ReduceMean", {squares}, {{"axes", OnnxDims{-1}}, {"keepdims", 1}});
  const std::string root = o.add("Sqrt", {o.add("Add", {mean, o.number(kNormEpsilon)})});
  std::string y = o.add("Div", {x, root});
  if (grouped) y = o.reshape(y, shape);
  o.give(o.flag("affine") ? o.add("Mul", {y, o.weight(0)}) : y);
}

/// ONNX normalises every channel: each group becomes one.
void put_group_norm(OnnxOperator& o) {
  const std::int64_t groups = o.integer("groups");
  const OnnxDims& shape = o.shape(0);
  const std::int64_t all = product_of_dims(shape, 1, shape.size());
  const std::string as_channels = o.reshape(o.input(0), {shape[0], groups, all / groups});
  const std::string normal =
      o.add("InstanceNormalization",
            {as_channels, o.draft.filled({groups}, 1, o.type()), o.draft.filled({groups}, 0, o.type())},
            {{"epsilon", kNormEpsilon}});
  const std::string y = o.reshape(normal, shape);
  if (!o.flag("affine")) return o.give(y);
  OnnxDims spatial;
  for (std::size_t i = 2; i < shape.size(); ++i) spatial.push_back(static_cast<std::int64_t>(i) - 1);
  const auto per_channel = [&](std::size_t weight) {
    return spatial.empty() ? o.weight(weight) : o.unsqueeze(o.weight(weight), spatial);
  };
  o.give(o.add("Add", {o.add("Mul", {y, per_channel(0)}), per_channel(1)}));
}

}  // namespace

OnnxKinds onnx_norm_kinds() {
  return {{"batch_norm", put_batch_norm},
          {"group_norm", put_group_norm},
          {"layer_norm", put_layer_norm},
          {"rms_norm", put_rms_norm}};
}

}  // namespace pipesim
