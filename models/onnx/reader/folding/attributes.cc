#include "models/onnx/reader/folding/attributes.h"

namespace pipesim {

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::int64_t integer_attribute(const onnx::NodeProto& node, const std::string& name, std::int64_t fallback) {
  const onnx::AttributeProto* found = find_attribute(node, name);
  return found == nullptr ? fallback : found->i();
}

double real_attribute(const onnx::NodeProto& node, const std::string& name, double fallback) {
  const onnx::AttributeProto* found = find_attribute(node, name);
  return found == nullptr ? fallback : static_cast<double>(found->f());
}

std::vector<std::int64_t> integers_attribute(const onnx::NodeProto& node, const std::string& name,
                                             std::vector<std::int64_t> fallback) {
  const onnx::AttributeProto* found = find_attribute(node, name);
  if (found == nullptr) return fallback;
  return {found->ints().begin(), found->ints().end()};
}

std::string text_attribute(const onnx::NodeProto& node, const std::string& name,
                           const std::string& fallback) {
  const onnx::AttributeProto* found = find_attribute(node, name);
  return found == nullptr ? fallback : found->s();
}

bool is_standard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

std::string operator_name(const std::string& domain, const std::string& op) {
  return domain.empty() || domain == "ai.onnx" ? op : domain + "." + op;
}

std::string operator_of(const onnx::NodeProto& node) { return operator_name(node.domain(), node.op_type()); }

}  // namespace pipesim
