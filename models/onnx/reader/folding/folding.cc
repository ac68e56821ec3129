#include "models/onnx/reader/folding/folding.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/folding/folding_rules.h"

namespace pipesim {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using Integers = std::vector<std::int64_t>;

/// Axes from an input, or from the attribute of older versions.
std::optional<Integers> axes_of(const NodeProto& node, const FoldInputs& inputs, std::size_t place) {
  if (inputs.size() > place && inputs[place] != nullptr) return integers_of(*inputs[place]);
  if (find_attribute(node, "axes") == nullptr) return std::nullopt;
  return integers_attribute(node, "axes");
}

// Shapes.

Folded fold_cast(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const int type = static_cast<int>(integer_attribute(node, "to", 0));
  OnnxConstant result{in[0]->shape, type, Integers()};
  if (is_floating_type(type)) {
    std::vector<double> values;
    for (std::size_t i = 0; i < in[0]->size(); ++i) values.push_back(in[0]->real(i));
    result.values = std::move(values);
  } else if (is_integer_type(type)) {
    Integers values = integers_of(*in[0]);
    if (type == TensorProto::BOOL) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = in[0]->real(i) != 0 ? 1 : 0;
    }
    result.values = std::move(values);
  } else {
    return std::nullopt;
  }
  return result;
}

Folded with_shape(const OnnxConstant& x, std::optional<OnnxShape> shape) {
  if (!shape) return std::nullopt;
  OnnxConstant result = x;
  result.shape = std::move(*shape);
  return result;
}

Folded fold_reshape(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  OnnxShape asked =
      in.size() > 1 && in[1] != nullptr ? integers_of(*in[1]) : integers_attribute(node, "shape");
  const bool zeros = integer_attribute(node, "allowzero", 0) != 0;
  return with_shape(*in[0], reshaped_shape(in[0]->shape, std::move(asked), zeros));
}

Folded fold_squeeze(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  return with_shape(*in[0], squeezed_shape(in[0]->shape, axes_of(node, in, 1)));
}

Folded fold_unsqueeze(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const auto axes = axes_of(node, in, 1);
  return axes ? with_shape(*in[0], unsqueezed_shape(in[0]->shape, *axes)) : std::nullopt;
}

Folded fold_flatten(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  return with_shape(*in[0], flattened_shape(in[0]->shape, integer_attribute(node, "axis", 1)));
}

Folded fold_transpose(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const std::size_t rank = in[0]->shape.size();
  Integers order = integers_attribute(node, "perm");
  if (order.empty()) {
    order.resize(rank);
    std::iota(order.rbegin(), order.rend(), 0);
  }
  Integers sorted = order;
  std::ranges::sort(sorted);
  Integers all(rank);
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return std::nullopt;
  const auto own = strides_of(in[0]->shape);
  OnnxShape shape;
  std::vector<std::int64_t> strides;
  for (const std::int64_t dim : order) {
    shape.push_back(in[0]->shape[static_cast<std::size_t>(dim)]);
    strides.push_back(own[static_cast<std::size_t>(dim)]);
  }
  return strided(*in[0], shape, strides);
}

Folded fold_expand(const NodeProto& /*node*/, std::int64_t /*opset*/, const FoldInputs& in) {
  const auto shape = stretched(in[0]->shape, integers_of(*in[1]));
  return shape ? stretched_to(*in[0], *shape) : std::nullopt;
}

Folded fold_tile(const NodeProto& /*node*/, std::int64_t opset, const FoldInputs& in) {
  const Integers repeats = integers_of(*in[1]);
  if (opset < 6 || repeats.size() != in[0]->shape.size()) return std::nullopt;
  if (std::ranges::any_of(repeats, [](std::int64_t n) { return n < 0 || n > kMostFolded; }))
    return std::nullopt;
  // Each dim as two, the first of which repeats.
  OnnxShape twofold, shape;
  std::vector<std::int64_t> strides;
  const auto own = strides_of(in[0]->shape);
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    twofold.insert(twofold.end(), {repeats[i], in[0]->shape[i]});
    strides.insert(strides.end(), {0, own[i]});
    shape.push_back(repeats[i] * in[0]->shape[i]);
  }
  auto result = strided(*in[0], twofold, strides);
  if (result) result->shape = shape;
  return result;
}

Folded fold_concat(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const auto axis = onnx_axis(integer_attribute(node, "axis", 1), in[0]->shape.size());
  if (!axis) return std::nullopt;
  OnnxShape shape = in[0]->shape;
  shape[*axis] = 0;
  bool floating = false;
  for (const OnnxConstant* x : in) {
    if (x == nullptr || x->shape.size() != shape.size()) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i != *axis && x->shape[i] != shape[i]) return std::nullopt;
    }
    shape[*axis] += x->shape[*axis];
    floating = floating || x->floating();
  }
  const auto size = folded_size(shape);
  if (!size || floating != in[0]->floating()) return std::nullopt;
  OnnxConstant result = empty_like(*in[0], shape, *size);
  const std::int64_t inner = strides_of(shape)[*axis];
  std::size_t before = 0;
  for (const OnnxConstant* x : in) {
    const std::int64_t rows = x->shape[*axis] * inner;
    for (std::size_t i = 0; i < x->size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      const std::int64_t at = rows == 0 ? 0 : place / rows * (shape[*axis] * inner) + place % rows;
      copy_element(result, before + static_cast<std::size_t>(at), *x, i);
    }
    before += static_cast<std::size_t>(rows);
  }
  return result;
}

Folded fold_slice(const NodeProto& node, std::int64_t opset, const FoldInputs& in) {
  const auto list = [&](std::size_t place, const char* name) -> Integers {
    if (opset < 10) return integers_attribute(node, name);
    return in.size() > place && in[place] != nullptr ? integers_of(*in[place]) : Integers();
  };
  const Integers starts = list(1, "starts"), ends = list(2, "ends");
  Integers axes = list(3, "axes"), steps = opset < 10 ? Integers() : list(4, "steps");
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return std::nullopt;
  OnnxShape shape = in[0]->shape;
  std::vector<std::int64_t> strides = strides_of(shape);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = onnx_axis(axes[i], shape.size());
    if (!axis || steps[i] == 0) return std::nullopt;
    const std::int64_t length = in[0]->shape[*axis];
    if (length == 0) continue;
    const std::int64_t step = std::clamp(steps[i], -length, length);  // a longer one takes one element, too
    const auto bounded = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? at + length : at, low, high);
    };
    const std::int64_t start = step > 0 ? bounded(starts[i], 0, length) : bounded(starts[i], 0, length - 1);
    const std::int64_t end = step > 0            ? bounded(ends[i], 0, length)
                             : ends[i] < -length ? -1
                                                 : bounded(ends[i], -1, length - 1);
    shape[*axis] = std::max<std::int64_t>(0, (end - start + step + (step > 0 ? -1 : 1)) / step);
    first += start * strides[*axis];
    strides[*axis] *= step;
  }
  return strided(*in[0], shape, strides, first);
}

Folded fold_gather(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const OnnxConstant &x = *in[0], &places = *in[1];
  const auto axis = onnx_axis(integer_attribute(node, "axis", 0), x.shape.size());
  if (!axis) return std::nullopt;
  OnnxShape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  shape.insert(shape.end(), places.shape.begin(), places.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, x.shape.end());
  const auto size = folded_size(shape);
  if (!size) return std::nullopt;
  OnnxConstant result = empty_like(x, shape, *size);
  const auto inner = static_cast<std::size_t>(strides_of(x.shape)[*axis]), count = places.size();
  const auto extent = x.shape[*axis];
  for (std::size_t i = 0; i < *size; ++i) {
    std::int64_t place = places.integer(i / inner % count);
    if (place < 0) place += extent;
    if (place < 0 || place >= extent) return std::nullopt;
    const std::size_t outer = i / (inner * count);
    copy_element(
        result, i, x,
        (outer * static_cast<std::size_t>(extent) + static_cast<std::size_t>(place)) * inner + i % inner);
  }
  return result;
}

Folded fold_range(const NodeProto& /*node*/, std::int64_t /*opset*/, const FoldInputs& in) {
  if (in[0]->size() != 1 || in[1]->size() != 1 || in[2]->size() != 1) return std::nullopt;
  const double start = in[0]->real(0), step = in[2]->real(0);
  const double count = std::ceil((in[1]->real(0) - start) / step);
  if (!(count < static_cast<double>(kMostFolded))) return std::nullopt;
  const auto size = static_cast<std::size_t>(std::max(0.0, count));
  OnnxConstant result = empty_like(*in[0], {static_cast<std::int64_t>(size)}, size);
  for (std::size_t i = 0; i < size; ++i) {
    if (result.floating()) {
      std::get<1>(result.values)[i] = start + static_cast<double>(i) * step;
    } else {
      std::get<0>(result.values)[i] = in[0]->integer(0) + static_cast<std::int64_t>(i) * in[2]->integer(0);
    }
  }
  return result;
}

Folded fold_constant_of_shape(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const OnnxShape shape = integers_of(*in[0]);
  const auto size = folded_size(shape);
  OnnxConstant value{{1}, TensorProto::FLOAT, std::vector<double>{0}};
  if (const onnx::AttributeProto* given = find_attribute(node, "value")) {
    const auto constant = constant_of(given->t());
    if (!constant || constant->size() != 1) return std::nullopt;
    value = *constant;
  }
  if (!size) return std::nullopt;
  OnnxConstant result = empty_like(value, shape, *size);
  for (std::size_t i = 0; i < *size; ++i) copy_element(result, i, value, 0);
  return result;
}

Folded fold_triangle(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  OnnxConstant result = *in[0];
  if (result.shape.size() < 2) return std::nullopt;
  const bool upper = integer_attribute(node, "upper", 1) != 0;
  const std::int64_t k = in.size() > 1 && in[1] != nullptr && in[1]->size() == 1 ? in[1]->integer(0) : 0;
  const std::int64_t columns = result.shape.back(), rows = result.shape[result.shape.size() - 2];
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const std::int64_t above = place % columns - place / columns % rows;
    if (upper ? above >= k : above <= k) continue;
    if (result.floating()) {
      std::get<1>(result.values)[i] = 0;
    } else {
      std::get<0>(result.values)[i] = 0;
    }
  }
  return result;
}

Folded fold_where(const NodeProto& /*node*/, std::int64_t /*opset*/, const FoldInputs& in) {
  const auto pair = stretched(in[1]->shape, in[2]->shape);
  const auto shape = pair ? stretched(*pair, in[0]->shape) : std::nullopt;
  if (!shape || in[1]->floating() != in[2]->floating()) return std::nullopt;
  const auto choice = stretched_to(*in[0], *shape);
  auto yes = stretched_to(*in[1], *shape);
  const auto no = stretched_to(*in[2], *shape);
  if (!choice || !yes || !no) return std::nullopt;
  for (std::size_t i = 0; i < yes->size(); ++i) {
    if (choice->integer(i) == 0) copy_element(*yes, i, *no, i);
  }
  return yes;
}

Folded fold_non_zero(const NodeProto& /*node*/, std::int64_t /*opset*/, const FoldInputs& in) {
  const auto strides = strides_of(in[0]->shape);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < in[0]->size(); ++i) {
    if (in[0]->real(i) != 0) places.push_back(i);
  }
  Integers values;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    for (const std::size_t place : places)
      values.push_back(static_cast<std::int64_t>(place) / strides[d] % in[0]->shape[d]);
  }
  return integer_constant(
      {static_cast<std::int64_t>(strides.size()), static_cast<std::int64_t>(places.size())}, values);
}

Folded fold_reduction(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const std::size_t rank = in[0]->shape.size();
  const auto axes = axes_of(node, in, 1);
  if ((!axes || axes->empty()) && integer_attribute(node, "noop_with_empty_axes", 0) != 0) return *in[0];
  std::vector<bool> reduced(rank, !axes || axes->empty());
  for (const std::int64_t given : axes.value_or(Integers())) {
    const auto axis = onnx_axis(given, rank);
    if (!axis) return std::nullopt;
    reduced[*axis] = true;
  }
  OnnxShape kept, shape;
  for (std::size_t i = 0; i < rank; ++i) {
    kept.push_back(reduced[i] ? 1 : in[0]->shape[i]);
    if (!reduced[i] || integer_attribute(node, "keepdims", 1) != 0) shape.push_back(kept.back());
  }
  const auto size = folded_size(kept);
  if (!size || in[0]->size() == 0) return std::nullopt;
  const std::string& op = node.op_type();
  std::vector<double> sums(*size);
  std::vector<bool> begun(*size);
  const auto from = strides_of(in[0]->shape), to = strides_of(kept);
  for (std::size_t i = 0; i < in[0]->size(); ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      if (!reduced[d]) at += static_cast<std::int64_t>(i) / from[d] % in[0]->shape[d] * to[d];
    }
    double& sum = sums[static_cast<std::size_t>(at)];
    const double x = in[0]->real(i);
    if (!begun[static_cast<std::size_t>(at)]) {
      sum = x;
    } else if (op == "ReduceProd") {
      sum *= x;
    } else if (op == "ReduceMax") {
      sum = std::max(sum, x);
    } else if (op == "ReduceMin") {
      sum = std::min(sum, x);
    } else {
      sum += x;
    }
    begun[static_cast<std::size_t>(at)] = true;
  }
  OnnxConstant result = empty_like(*in[0], shape, *size);
  const OnnxConstant found{shape, TensorProto::DOUBLE, sums};
  for (std::size_t i = 0; i < *size; ++i) copy_element(result, i, found, i);
  return result;
}

Folded fold_identity(const NodeProto& /*node*/, std::int64_t /*opset*/, const FoldInputs& in) {
  return *in[0];
}

const FoldRules& rules() {
  static const FoldRules all = [] {
    FoldRules table{{"Identity", {fold_identity, 1}},   {"Cast", {fold_cast, 1}},
                    {"Reshape", {fold_reshape, 1}},     {"Squeeze", {fold_squeeze, 1}},
                    {"Unsqueeze", {fold_unsqueeze, 1}}, {"Flatten", {fold_flatten, 1}},
                    {"Transpose", {fold_transpose, 1}}, {"Expand", {fold_expand, 2}},
                    {"Tile", {fold_tile, 2}},           {"Concat", {fold_concat, 1}},
                    {"Slice", {fold_slice, 1}},         {"Gather", {fold_gather, 2}},
                    {"Range", {fold_range, 3}},         {"ConstantOfShape", {fold_constant_of_shape, 1}},
                    {"Trilu", {fold_triangle, 1}},      {"Where", {fold_where, 3}},
                    {"NonZero", {fold_non_zero, 1}}};
    for (const char* op : {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"})
      table[op] = {fold_reduction, 1};
    table.merge(element_folds());
    return table;
  }();
  return all;
}

}  // namespace

std::optional<std::vector<OnnxConstant>> fold(const NodeProto& node, std::int64_t opset,
                                              const FoldInputs& inputs) {
  const auto rule = rules().find(node.op_type());
  if (rule == rules().end() || inputs.size() < rule->second.needed) return std::nullopt;
  for (std::size_t i = 0; i < rule->second.needed; ++i) {
    if (inputs[i] == nullptr) return std::nullopt;
  }
  auto result = rule->second.fold(node, opset, inputs);
  if (!result) return std::nullopt;
  return std::vector<OnnxConstant>{std::move(*result)};
}

}  // namespace pipesim
