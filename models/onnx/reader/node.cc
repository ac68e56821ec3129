#include "models/onnx/reader/node.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/operator_names.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

const OnnxValue kLeftOut;

/// "layer1.0.conv1" for what has weights, "layer1.0.add" for other nodes.
std::string name_of_node(const onnx::NodeProto& node, bool weights) {
  const std::string path = module_path(node.name());
  if (!path.empty()) return weights ? path : path + "." + snake_case(node.op_type());
  // Exporters without modules write "Conv_12", and "/Conv" for the outermost one.
  if (node.name().empty() || node.name().front() == '/') return snake_case(node.op_type());
  return snake_case(node.name());
}

double within_float(double value) {
  constexpr double most = 3e38;
  return std::clamp(value, -most, most);
}

}  // namespace

OnnxNode::OnnxNode(ModelWriter& writer, const OnnxUses& uses, const onnx::NodeProto& node, std::int64_t opset,
                   std::vector<OnnxValue> inputs)
    : writer_(writer),
      uses_(uses),
      node_(node),
      opset_(opset),
      inputs_(std::move(inputs)),
      name_(name_of_node(node, std::ranges::any_of(
                                   inputs_, [](const OnnxValue& v) { return v.form == OnnxForm::Weight; }))) {
}

bool OnnxNode::wanted(int result) const {
  return result < node_.output_size() && uses_.contains(node_.output(result));
}

const OnnxValue& OnnxNode::in(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : kLeftOut; }

std::int64_t OnnxNode::integer(const std::string& name, std::int64_t fallback) const {
  return integer_attribute(node_, name, fallback);
}
double OnnxNode::real(const std::string& name, double fallback) const {
  return real_attribute(node_, name, fallback);
}
std::vector<std::int64_t> OnnxNode::integers(const std::string& name) const {
  return integers_attribute(node_, name);
}
std::string OnnxNode::text(const std::string& name, const std::string& fallback) const {
  return text_attribute(node_, name, fallback);
}
bool OnnxNode::given(const std::string& name) const { return find_attribute(node_, name) != nullptr; }

std::optional<double> OnnxNode::number(std::size_t i) const {
  const OnnxValue& value = in(i);
  if (value.form != OnnxForm::Constant || value.constant->size() != 1) return std::nullopt;
  return value.constant->real(0);
}

std::optional<double> OnnxNode::setting(std::size_t i) const {
  const OnnxValue& value = in(i);
  if (!value.constant || value.constant->size() != 1) return std::nullopt;
  return value.constant->real(0);
}

std::optional<std::vector<std::int64_t>> OnnxNode::values(std::size_t i) const {
  const OnnxValue& value = in(i);
  if (value.form != OnnxForm::Constant) return std::nullopt;
  std::vector<std::int64_t> result;
  for (std::size_t v = 0; v < value.constant->size(); ++v) result.push_back(value.constant->integer(v));
  return result;
}

std::optional<std::vector<std::int64_t>> OnnxNode::list(std::size_t i, const std::string& name) const {
  if (has(i)) return values(i);
  if (given(name)) return integers(name);
  return std::nullopt;
}

std::optional<std::int64_t> OnnxNode::axis(std::int64_t given, std::size_t rank) {
  const auto found = onnx_axis(given, rank);
  return found ? std::optional(static_cast<std::int64_t>(*found)) : std::nullopt;
}

OnnxValue OnnxNode::made(TensorId tensor) const {
  OnnxValue value;
  value.form = OnnxForm::Tensor;
  value.tensor = tensor;
  value.shape = writer_.shape(tensor);
  value.type = onnx::TensorProto::FLOAT;
  return value;
}

OnnxValue OnnxNode::data(const std::string& name, const OnnxShape& shape, DataType type) {
  return made(writer_.data(name, shape, type));
}

OnnxValue OnnxNode::tensor(const OnnxValue& value) {
  switch (value.form) {
    case OnnxForm::Tensor:
      return value;
    case OnnxForm::Weight: {
      OnnxShape shape = value.shape;
      if (value.transposed) std::swap(shape[0], shape[1]);
      if (shape.empty()) shape = {1};
      OperatorRequest request;
      request.kind = "parameter";
      request.name = value.name + ".value";
      request.attributes = {{"shape", shape}};
      request.weights = {value.name};
      OnnxValue result = made(writer_.add(std::move(request)).front());
      if (value.transposed) result = transposed(result, {1, 0}, "transposed");
      return value.shape.empty() ? reshaped(result, {}, "scalar") : result;
    }
    case OnnxForm::Constant:
    case OnnxForm::Data: {
      OnnxValue result = made(writer_.data(value.name, value.shape));
      const OnnxConstant* known = value.constant.get();
      if (known != nullptr && known->floating())
        writer_.mark_causal(result.tensor, [&] { return is_causal_mask(*known); });
      return result;
    }
    case OnnxForm::None:
      break;
  }
  throw InputError("an input that it needs is left out");
}

OnnxValue OnnxNode::mask(const OnnxValue& seen, bool inverted) {
  OnnxValue result = made(writer_.data(seen.name + ".mask", seen.shape));
  if (seen.constant && !seen.constant->floating()) {
    writer_.mark_causal(result.tensor, [&] {
      if (!inverted) return is_triangle_of_ones(*seen.constant);
      OnnxConstant shown = *seen.constant;
      for (std::int64_t& value : std::get<0>(shown.values)) value = value == 0 ? 1 : 0;
      return is_triangle_of_ones(shown);
    });
  }
  return result;
}

std::string OnnxNode::part_name(const std::string& part) const {
  return part.empty() ? name_ : name_ + "_" + part;
}

OnnxValue OnnxNode::write(const std::string& kind, const std::vector<OnnxValue>& inputs,
                          const Attributes& attributes, const std::string& part,
                          const std::vector<std::string>& weights) {
  OperatorRequest request;
  request.kind = kind;
  request.name = part_name(part);
  request.attributes = attributes;
  request.weights = weights;
  for (const OnnxValue& input : inputs) request.inputs.push_back(tensor(input).tensor);
  return made(writer_.add(std::move(request)).front());
}

std::vector<OnnxValue> OnnxNode::write_all(const std::string& kind, const std::vector<OnnxValue>& inputs,
                                           const Attributes& attributes, const std::string& part) {
  OperatorRequest request;
  request.kind = kind;
  request.name = part_name(part);
  request.attributes = attributes;
  for (const OnnxValue& input : inputs) request.inputs.push_back(tensor(input).tensor);
  std::vector<OnnxValue> results;
  for (const TensorId output : std::vector(writer_.add(std::move(request)))) results.push_back(made(output));
  return results;
}

OnnxValue OnnxNode::affine(const OnnxValue& x, double factor, double offset, const std::string& part) {
  OnnxValue source = tensor(x);
  if (const auto* before = maker(source, "affine")) {
    const auto get = [&](const char* name, double fallback) {
      const auto found = before->request.attributes.find(name);
      return found == before->request.attributes.end() ? fallback : std::get<double>(found->second);
    };
    offset += factor * get("offset", 0);
    factor *= get("factor", 1);
    source = made(before->request.inputs[0]);
  }
  if (factor == 1 && offset == 0) return source;
  return each("affine", source, {{"factor", within_float(factor)}, {"offset", within_float(offset)}}, part);
}

OnnxValue OnnxNode::expanded(const OnnxValue& x, const OnnxShape& shape, const std::string& part) {
  const OnnxValue source = tensor(x);
  return source.shape == shape ? source : write("expand", {source}, {{"shape", shape}}, part);
}

OnnxValue OnnxNode::reduced(const OnnxValue& x, const std::vector<std::int64_t>& axes,
                            const std::string& mode, bool keep, const std::string& part) {
  if (axes.empty()) return tensor(x);
  OnnxShape kept = x.shape;
  for (const std::int64_t a : axes) kept[static_cast<std::size_t>(a)] = 1;
  const OnnxValue result = write("reduce", {x}, {{"axes", axes}, {"mode", mode}}, part);
  return keep ? reshaped(result, kept, part + (part.empty() ? "keepdims" : "_keepdims")) : result;
}

OnnxValue OnnxNode::contracted(std::vector<std::string> terms, std::vector<OnnxValue> values,
                               const std::string& out, const std::string& part) {
  std::unordered_map<char, std::int64_t> sizes;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    for (std::size_t i = 0; i < terms[t].size(); ++i) {
      std::int64_t& size = sizes.try_emplace(terms[t][i], 1).first->second;
      size = std::max(size, values[t].shape[i]);
    }
  }
  std::string equation;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    std::string kept;
    OnnxShape shape;
    for (std::size_t i = 0; i < terms[t].size(); ++i) {
      if (values[t].shape[i] != sizes[terms[t][i]]) continue;
      kept += terms[t][i];
      shape.push_back(values[t].shape[i]);
    }
    if (kept.size() < terms[t].size()) values[t] = reshaped(values[t], shape, "dims");
    equation += (t == 0 ? "" : ",") + kept;
  }
  return write("einsum", values, {{"equation", equation + "->" + out}}, part);
}

void OnnxNode::name_by_weight(std::size_t i) {
  if (const std::string owner = owner_of_weight(in(i).name); is_weight(i) && !owner.empty()) name_ = owner;
}

bool OnnxNode::shared(const OnnxValue& weight) const {
  const auto found = uses_.find(weight.name);
  return found != uses_.end() && found->second > 1;
}

}  // namespace pipesim
