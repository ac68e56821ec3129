#include "models/onnx/writer/onnx_draft.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "models/operator_kind.h"

namespace pipesim {
namespace {

constexpr int kIrVersion = 8, kOperatorSet = 17;
constexpr const char* kOwnDomain = "pipesim";
constexpr const char* kWeightsFile = "weights.bin";

onnx::ValueInfoProto value_info_of(const Tensor& tensor) {
  onnx::ValueInfoProto info;
  info.set_name(tensor.name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx_type(tensor.type));
  type->mutable_shape();  // also where it has no dims
  for (const std::int64_t extent : tensor.shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  return info;
}

onnx::TensorProto weight_without_data(const Tensor& weight) {
  onnx::TensorProto tensor;
  tensor.set_name(weight.name);
  tensor.set_data_type(onnx_type(weight.type));
  for (const std::int64_t extent : weight.shape) tensor.add_dims(extent);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* place = tensor.add_external_data();
  place->set_key("location");
  place->set_value(kWeightsFile);
  return tensor;
}

onnx::AttributeProto attribute_of(const std::string& name, const AttributeValue& value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t i : std::get<std::vector<std::int64_t>>(value)) attribute.add_ints(i);
  }
  return attribute;
}

void add_attributes_to(onnx::NodeProto& node, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) *node.add_attribute() = attribute_of(name, value);
}

/// To the nearest, ties to even.
std::int32_t bits_of_float16(float value) {
  constexpr int kMantissa = 10, kBias = 15;
  constexpr float kTooLarge = 65520;
  constexpr std::int32_t kSign = 0x8000, kInfinity = 0x7c00;
  const std::int32_t sign = std::signbit(value) ? kSign : 0;
  const float magnitude = std::abs(value);
  if (magnitude >= kTooLarge) return sign | kInfinity;
  int exponent = 0;  // magnitude = fraction · 2^exponent, the fraction from 1/2 to 1
  const float fraction = std::frexp(magnitude, &exponent);
  const int biased = exponent - 1 + kBias;
  if (biased < 1)  // subnormal
    return sign | static_cast<std::int32_t>(std::lrint(std::ldexp(magnitude, kBias - 1 + kMantissa)));
  const auto mantissa = static_cast<std::int32_t>(std::lrint(std::ldexp(fraction, kMantissa + 1)));
  return sign | ((biased << kMantissa) + mantissa - (1 << kMantissa));
}

/// To the nearest, ties to even.
std::int32_t bits_of_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::int32_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

void set_value(onnx::TensorProto& tensor, double value, DataType type) {
  tensor.set_data_type(onnx_type(type));
  switch (type) {
    case DataType::Float16:
      tensor.add_int32_data(bits_of_float16(static_cast<float>(value)));
      break;
    case DataType::BFloat16:
      tensor.add_int32_data(bits_of_bfloat16(static_cast<float>(value)));
      break;
    case DataType::Float64:
      tensor.add_double_data(value);
      break;
    default:
      tensor.add_float_data(static_cast<float>(value));
  }
}

}  // namespace

int onnx_type(DataType type) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return onnx::TensorProto::FLOAT;
    case DataType::Float16:
      return onnx::TensorProto::FLOAT16;
    case DataType::BFloat16:
      return onnx::TensorProto::BFLOAT16;
    case DataType::Float64:
      return onnx::TensorProto::DOUBLE;
    case DataType::Int64:
      return onnx::TensorProto::INT64;
    case DataType::Int32:
      return onnx::TensorProto::INT32;
    case DataType::UInt8:
      return onnx::TensorProto::UINT8;
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      break;  // no tensor's type
  }
  return onnx::TensorProto::UNDEFINED;
}

OnnxDraft::OnnxDraft(const OperatorGraph& model) : graph_(*file_.mutable_graph()) {
  file_.set_ir_version(kIrVersion);
  file_.set_producer_name(kOwnDomain);
  graph_.set_name(model.name());
  for (const Tensor& tensor : model.tensors()) {
    names_.insert(tensor.name);
    if (tensor.kind == TensorKind::Data) *graph_.add_input() = value_info_of(tensor);
    if (tensor.kind == TensorKind::Weight || tensor.kind == TensorKind::State)
      *graph_.add_initializer() = weight_without_data(tensor);
  }
}

std::string OnnxDraft::unique(const std::string& name) {
  std::string result = name;
  while (!names_.insert(result).second) result = fmt::format("{}_{}", name, ++numbers_[name]);
  return result;
}

std::vector<std::string> OnnxDraft::add(const std::string& prefix, const std::string& type,
                                        const std::vector<std::string>& inputs, const Attributes& attributes,
                                        std::size_t results) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(type);
  for (const std::string& input : inputs) node.add_input(input);
  add_attributes_to(node, attributes);
  std::vector<std::string> made;
  for (std::size_t i = 0; i < results; ++i) {
    made.push_back(unique(fmt::format("{}/{}", prefix, type)));
    node.add_output(made.back());
  }
  node.set_name(made.front());
  return made;
}

void OnnxDraft::add_own(const std::string& name, const std::string& kind,
                        const std::vector<std::string>& inputs, const std::vector<std::string>& results,
                        const Attributes& attributes) {
  own_domain_ = true;
  onnx::NodeProto& node = *graph_.add_node();
  node.set_domain(kOwnDomain);
  node.set_op_type(kind);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& result : results) node.add_output(result);
  add_attributes_to(node, attributes);
}

void OnnxDraft::rename(int first, const std::string& value, const std::string& tensor,
                       const std::string& name) {
  for (int n = first; n < graph_.node_size(); ++n) {
    onnx::NodeProto& node = *graph_.mutable_node(n);
    for (std::string& input : *node.mutable_input()) {
      if (input == value) input = tensor;
    }
    for (std::string& output : *node.mutable_output()) {
      if (output != value) continue;
      output = tensor;
      if (!name.empty()) node.set_name(name);
    }
  }
}

std::string OnnxDraft::constant(const std::string& key, onnx::TensorProto tensor) {
  const auto [found, added] = by_key_.try_emplace(key);
  if (added) {
    found->second = unique("constant/" + key);
    tensor.set_name(found->second);
    *graph_.add_initializer() = std::move(tensor);
  }
  return found->second;
}

std::string OnnxDraft::integers(const std::vector<std::int64_t>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  constexpr std::size_t kMostInName = 16;
  const std::string key = to_text(values);
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second;
  const std::string name = values.size() <= kMostInName ? key : fmt::format("{} integers", values.size());
  tensor.set_name(unique("constant/" + name));
  *graph_.add_initializer() = tensor;
  return by_key_[key] = tensor.name();
}

std::string OnnxDraft::integer(std::int64_t value) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_int64_data(value);
  return constant(fmt::format("int64 {}", value), std::move(tensor));
}

std::string OnnxDraft::number(double value, DataType type) {
  onnx::TensorProto tensor;
  set_value(tensor, value, type);
  return constant(fmt::format("{} {}", name_of(type), value), std::move(tensor));
}

std::string OnnxDraft::filled(const std::vector<std::int64_t>& shape, double value, DataType type) {
  return shared(fmt::format("{} {} {}", name_of(type), value, to_text(shape)),
                [&](const std::string& prefix) {
                  return add(prefix, "Expand", {number(value, type), integers(shape)}).front();
                });
}

std::string OnnxDraft::shared(const std::string& key,
                              const std::function<std::string(const std::string& prefix)>& make) {
  const std::string place = "shared/" + key;
  const auto found = by_key_.find(place);
  if (found != by_key_.end()) return found->second;
  std::string made = make(place);
  by_key_[place] = made;
  return made;
}

std::string OnnxDraft::finish(const OperatorGraph& model) {
  for (std::size_t t = 0; t < model.tensors().size(); ++t) {
    const Tensor& tensor = model.tensors()[t];
    if (tensor.kind != TensorKind::Activation) continue;
    const bool read = !model.consumers(TensorId(static_cast<std::int32_t>(t))).empty();
    *(read ? graph_.add_value_info() : graph_.add_output()) = value_info_of(tensor);
  }
  file_.add_opset_import()->set_version(kOperatorSet);
  if (own_domain_) {
    auto* own = file_.add_opset_import();
    own->set_domain(kOwnDomain);
    own->set_version(1);
  }
  return file_.SerializeAsString();
}

}  // namespace pipesim
