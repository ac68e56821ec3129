#include <algorithm>
#include <numeric>

#include "models/onnx/reader/rules.h"

namespace pipesim {
namespace {

/// A norm, with the weights of its own where gamma and beta are weights, else with operators behind it.
/// `channels`: the shape that gamma and beta have beside the result.
OnnxValue write_affine(OnnxNode& node, const char* kind, const OnnxValue& x, Attributes attributes,
                       std::size_t gamma, const OnnxShape& channels) {
  const OnnxValue &scale = node.in(gamma), &shift = node.in(gamma + 1);
  const auto write_norm = [&](const std::vector<std::string>& weights) {
    return kind == std::string("layer_norm") ? node.each(kind, x, attributes, "", true, weights)
                                             : node.write(kind, {x}, attributes, "", weights);
  };
  if (scale.form == OnnxForm::Weight && shift.form == OnnxForm::Weight && scale.shape.size() == 1) {
    node.name_by_weight(gamma);
    return write_norm({scale.name, shift.name});
  }
  attributes["affine"] = 0;
  OnnxValue result = write_norm({});
  const auto is_number = [](const OnnxValue& value, double number) {
    if (value.form != OnnxForm::Constant) return false;
    for (std::size_t i = 0; i < value.constant->size(); ++i) {
      if (value.constant->real(i) != number) return false;
    }
    return true;
  };
  const auto behind = [&](const OnnxValue& value) {
    return channels.empty() ? value : node.reshaped(value, channels, "channels");
  };
  if (scale.form != OnnxForm::None && !is_number(scale, 1))
    result = node.binary("mul", result, behind(scale), "scale");
  if (shift.form != OnnxForm::None && !is_number(shift, 0))
    result = node.binary("add", result, behind(shift), "shift");
  return result;
}

bool write_batch_norm(OnnxNode& node) {
  if (!node.is_weight(1) || !node.is_weight(2) || node.rank() < 2 || node.rank() > 5) return false;
  // Running statistics are state of the operator; nobody else may read them.
  for (int i = 1; i < node.proto().output_size(); ++i) {
    if (node.wanted(i)) return false;
  }
  node.name_by_weight(1);
  node.give(node.write("batch_norm", {node.in(0)}, {}, "", {node.in(1).name, node.in(2).name}));
  return true;
}

bool write_layer_norm(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", -1), node.rank());
  if (!axis) return false;
  if (node.wanted(1) || node.wanted(2)) return false;
  const OnnxShape own = node.in(0).shape;
  const auto split = own.begin() + static_cast<std::ptrdiff_t>(*axis);
  if (split + 1 == own.end()) {
    node.give(write_affine(node, "layer_norm", node.in(0), {}, 1, {}));
    return true;
  }
  // Over several dims: joined to one, and given back.
  OnnxShape joined(own.begin(), split);
  joined.push_back(std::accumulate(split, own.end(), std::int64_t{1}, std::multiplies<>()));
  const OnnxValue flat = node.reshaped(node.in(0), joined, "joined");
  const OnnxValue result = write_affine(node, "layer_norm", flat, {}, 1, {joined.back()});
  node.give(node.reshaped(result, own));
  return true;
}

bool write_rms_norm(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", -1), node.rank());
  if (!axis || *axis + 1 != static_cast<std::int64_t>(node.rank()) || !node.is_weight(1)) return false;
  node.name_by_weight(1);
  node.give(node.each("rms_norm", node.in(0), {}, "", true, {node.in(1).name}));
  return true;
}

OnnxShape channel_shape(const OnnxNode& node) {
  OnnxShape shape(node.rank() - 1, 1);
  shape[0] = node.in(0).shape[1];
  return shape;
}

bool write_instance_norm(OnnxNode& node) {
  if (node.rank() < 3) return false;
  node.give(write_affine(node, "group_norm", node.in(0), {{"groups", node.in(0).shape[1]}}, 1,
                         channel_shape(node)));
  return true;
}

bool write_group_norm(OnnxNode& node) {
  const std::int64_t groups = node.integer("num_groups", 0);
  if (node.rank() < 3 || groups < 1) return false;
  // Version 18 has a factor for each group, later ones for each channel.
  if (node.in(1).shape != OnnxShape{node.in(0).shape[1]}) return false;
  node.give(write_affine(node, "group_norm", node.in(0), {{"groups", groups}}, 1, channel_shape(node)));
  return true;
}

/// Over one dim, brought to the end; before version 13 over all dims from one on.
bool write_softmax(OnnxNode& node) {
  const bool one_dim = node.opset() >= 13;
  const auto axis = OnnxNode::axis(node.integer("axis", one_dim ? -1 : 1), node.rank());
  if (!axis) return false;
  const auto last = static_cast<std::int64_t>(node.rank()) - 1;
  const OnnxShape own = node.in(0).shape;
  OnnxValue x = node.in(0);
  std::vector<std::int64_t> order(node.rank());
  std::iota(order.begin(), order.end(), 0);
  if (one_dim) {
    std::swap(order[static_cast<std::size_t>(*axis)], order[static_cast<std::size_t>(last)]);
    x = node.transposed(x, order, "last");
  } else if (*axis != last) {
    const auto split = own.begin() + static_cast<std::ptrdiff_t>(*axis);
    OnnxShape joined(own.begin(), split);
    joined.push_back(std::accumulate(split, own.end(), std::int64_t{1}, std::multiplies<>()));
    x = node.reshaped(x, joined, "joined");
  }
  OnnxValue result = node.each("softmax", x, {}, "", true);
  if (node.op() == "LogSoftmax") result = node.each("log", result, {}, "log");
  node.give(one_dim ? node.transposed(result, order, "back") : node.reshaped(result, own, "apart"));
  return true;
}

/// Writes x divided by the root of the sum of its squares, or by the sum of its absolute values.
bool write_lp_normalization(OnnxNode& node) {
  const auto axis = OnnxNode::axis(node.integer("axis", -1), node.rank());
  if (!axis) return false;
  const bool squares = node.integer("p", 2) == 2;
  const OnnxValue terms = squares ? node.each("power", node.in(0), {{"exponent", 2.0}}, "square")
                                  : node.each("abs", node.in(0), {}, "abs");
  OnnxValue length = node.reduced(terms, {*axis}, "sum", true, "sum");
  if (squares) length = node.write("sqrt", {length}, {}, "length");
  node.give(node.binary("div", node.in(0), length));
  return true;
}

}  // namespace

OnnxRules norm_rules() {
  return {{"BatchNormalization", write_batch_norm},
          {"LayerNormalization", write_layer_norm},
          {"RMSNormalization", write_rms_norm},
          {"InstanceNormalization", write_instance_norm},
          {"GroupNormalization", write_group_norm},
          {"Softmax", write_softmax},
          {"LogSoftmax", write_softmax},
          {"LpNormalization", write_lp_normalization}};
}

}  // namespace pipesim
