#include "models/onnx/reader/shape_inference.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <algorithm>

#include "models/onnx/reader/folding/attributes.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

onnx::TypeProto proto_of(const OnnxType& type) {
  onnx::TypeProto proto;
  auto* tensor = proto.mutable_tensor_type();
  tensor->set_elem_type(type.element);
  if (!type.shape) return proto;
  auto* shape = tensor->mutable_shape();
  for (const std::int64_t extent : *type.shape) {
    auto* dim = shape->add_dim();
    if (extent >= 0) dim->set_dim_value(extent);
  }
  // Some rules of the library read dims that a shape lacks. What was added and removed again is still there,
  // as a dim without a length.
  constexpr int spare = 8;
  for (int i = 0; i < spare; ++i) shape->add_dim();
  for (int i = 0; i < spare; ++i) shape->mutable_dim()->RemoveLast();
  return proto;
}

/// One node alone, with the types and values that are known of its inputs.
class NodeContext : public onnx::InferenceContext {
 public:
  NodeContext(const onnx::NodeProto& node, const std::vector<InferredInput>& inputs) : node_(node) {
    // Larger tensors tell no shapes.
    constexpr std::size_t most_values = 4096;
    for (const InferredInput& input : inputs) {
      types_.push_back(proto_of(input.type));
      given_.push_back(input.given);
      const bool told = input.constant != nullptr && input.constant->size() <= most_values;
      values_.push_back(told ? std::optional(tensor_of(*input.constant)) : std::nullopt);
    }
    outputs_.resize(static_cast<std::size_t>(node.output_size()));
  }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return find_attribute(node_, name);
  }
  size_t getNumInputs() const override { return types_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override {
    return index < types_.size() && given_[index] ? &types_[index] : nullptr;
  }
  const onnx::TensorProto* getInputData(size_t index) const override {
    return index < values_.size() && values_[index] ? &*values_[index] : nullptr;
  }
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t index) override {
    if (index >= outputs_.size()) throw onnx::InferenceError("more results than the node has");
    return &outputs_[index];
  }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& /*attribute_name*/) override {
    return nullptr;
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t /*index*/) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t /*index*/) const override { return nullptr; }

  [[nodiscard]] const std::vector<onnx::TypeProto>& outputs() const { return outputs_; }

 private:
  const onnx::NodeProto& node_;
  std::vector<onnx::TypeProto> types_, outputs_;
  std::vector<bool> given_;
  std::vector<std::optional<onnx::TensorProto>> values_;
};

/// The library does not look whether all axes are there.
void check_axes(const onnx::NodeProto& node, const std::vector<InferredInput>& inputs) {
  if (inputs.empty() || !inputs[0].type.shape) return;
  const auto rank = static_cast<std::int64_t>(inputs[0].type.shape->size());
  const auto check = [&](const std::string& name, std::int64_t value, std::int64_t added) {
    if (value < -rank - added || value >= rank + added) {
      throw InputError("\"" + name + "\" has " + std::to_string(value) + ", and its input has " +
                       std::to_string(rank) + " dimensions");
    }
  };
  for (const auto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    const bool between = node.op_type() == "Flatten" || node.op_type() == "OneHot";
    if (name.ends_with("axis")) check(name, attribute.i(), between ? 1 : 0);
    if (name != "axes" && name != "perm") continue;
    for (const std::int64_t value : attribute.ints()) check(name, value, attribute.ints_size());
  }
}

/// The library takes a kernel's rank for that of what it slides over.
void check_kernel(const onnx::NodeProto& node, const std::vector<InferredInput>& inputs) {
  if (node.op_type().find("Conv") == std::string::npos) return;
  std::vector<std::size_t> ranks;  // of the tensors: kernels and what they slide over, not scales and biases
  for (const InferredInput& input : inputs) {
    if (input.type.shape && input.type.shape->size() > 1) ranks.push_back(input.type.shape->size());
  }
  if (ranks.size() < 2 || ranks[0] != ranks[1] || ranks[0] < 3)
    throw InputError("its input and its weight must have as many dimensions, 3 or more");
}

/// The library divides by these.
void check_windows(const onnx::NodeProto& node) {
  constexpr std::int64_t largest_block = 1 << 16;
  if (const std::int64_t block = integer_attribute(node, "blocksize", 1); block < 1 || block > largest_block)
    throw InputError("\"blocksize\" is " + std::to_string(block) + ", allowed: 1 to " +
                     std::to_string(largest_block));
  for (const char* name : {"strides", "dilations", "kernel_shape"}) {
    for (const std::int64_t value : integers_attribute(node, name)) {
      if (value < 1)
        throw InputError(std::string("\"") + name + "\" has " + std::to_string(value) +
                         ", allowed: 1 or more");
    }
  }
}

std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  for (const char* mark : {"[ShapeInferenceError] ", "[TypeInferenceError] "}) {
    if (text.starts_with(mark)) text.erase(0, std::string(mark).size());
  }
  return text;
}

}  // namespace

bool OnnxType::complete() const {
  return shape && std::ranges::none_of(*shape, [](std::int64_t extent) { return extent < 0; });
}

std::optional<OnnxType> onnx_type(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return std::nullopt;
  OnnxType result{type.tensor_type().elem_type(), std::nullopt};
  if (!type.tensor_type().has_shape()) return result;
  result.shape.emplace();
  for (const auto& dim : type.tensor_type().shape().dim())
    result.shape->push_back(dim.has_dim_value() ? std::max<std::int64_t>(dim.dim_value(), -1) : -1);
  return result;
}

std::optional<std::vector<OnnxType>> infer_types(const onnx::NodeProto& node, std::int64_t opset,
                                                 const std::vector<InferredInput>& inputs) {
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  const int version = static_cast<int>(standard ? std::min(opset, newest_known_opset())
                                                : std::min<std::int64_t>(opset, 1000));
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), version, standard ? "" : node.domain());
  if (schema == nullptr || !schema->has_type_and_shape_inference_function()) return std::nullopt;
  check_windows(node);
  check_kernel(node, inputs);
  check_axes(node, inputs);
  NodeContext context(node, inputs);
  try {
    schema->Verify(node);  // rules read what it checks without looking
    schema->GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::exception& error) {
    throw InputError(one_line(error.what()));
  }
  std::vector<OnnxType> types;
  for (const onnx::TypeProto& output : context.outputs())
    types.push_back(onnx_type(output).value_or(OnnxType()));
  return types;
}

std::int64_t newest_known_opset() {
  static const std::int64_t newest =
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second;
  return newest;
}

}  // namespace pipesim
