#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "models/onnx/onnx_model.h"

namespace pipesim {

// An ONNX file that a test writes.
class OnnxGraph {
 public:
  explicit OnnxGraph(std::int64_t opset = 17) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
    model.mutable_graph()->set_name("graph");
  }

  // A dim of −1 has neither a length nor a name. A dim of −2 has the name "batch".
  static void set_shape(onnx::TypeProto& type, const std::vector<std::int64_t>& dims, int element) {
    type.mutable_tensor_type()->set_elem_type(element);
    auto* shape = type.mutable_tensor_type()->mutable_shape();
    for (const std::int64_t dim : dims) {
      auto* one = shape->add_dim();
      if (dim >= 0) one->set_dim_value(dim);
      if (dim == -2) one->set_dim_param("batch");
    }
  }
  void input(const std::string& name, const std::vector<std::int64_t>& dims,
             int element = onnx::TensorProto::FLOAT) {
    auto* one = graph().add_input();
    one->set_name(name);
    set_shape(*one->mutable_type(), dims, element);
  }
  void output(const std::string& name) { graph().add_output()->set_name(name); }
  void value(const std::string& name, const std::vector<std::int64_t>& dims,
             int element = onnx::TensorProto::FLOAT) {
    auto* one = graph().add_value_info();
    one->set_name(name);
    set_shape(*one->mutable_type(), dims, element);
  }
  // Adds a weight without values, as if they lay in another file.
  void weight(const std::string& name, const std::vector<std::int64_t>& dims) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) tensor->add_dims(dim);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* place = tensor->add_external_data();
    place->set_key("location");
    place->set_value("weights.bin");
  }
  void integers(const std::string& name, const std::vector<std::int64_t>& values) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor->add_int64_data(value);
  }
  void number(const std::string& name, float value) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_float_data(value);
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = {}) {
    return add_node(graph(), op, inputs, outputs, name);
  }
  static onnx::NodeProto& add_node(onnx::GraphProto& to, const std::string& op,
                                   const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs, const std::string& name = {}) {
    auto* one = to.add_node();
    one->set_op_type(op);
    one->set_name(name.empty() ? outputs.front() : name);
    for (const std::string& input : inputs) one->add_input(input);
    for (const std::string& result : outputs) one->add_output(result);
    return *one;
  }
  static void set(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute->add_ints(value);
  }

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  [[nodiscard]] std::string text() const { return model.SerializeAsString(); }
  [[nodiscard]] OnnxModel read(const std::vector<NamedSize>& bound = {}) const {
    const std::string bytes = text();
    std::istringstream in(bytes);
    return read_onnx_model(in, static_cast<std::int64_t>(bytes.size()), "net.onnx", bound);
  }

  onnx::ModelProto model;
};

}  // namespace pipesim
