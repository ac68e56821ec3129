#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pipesim {

/// Return an attribute of a node. Where the node does not have it, they return nullptr or `fallback`.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, const std::string& name);
std::int64_t integer_attribute(const onnx::NodeProto& node, const std::string& name, std::int64_t fallback);
double real_attribute(const onnx::NodeProto& node, const std::string& name, double fallback);
std::vector<std::int64_t> integers_attribute(const onnx::NodeProto& node, const std::string& name,
                                             std::vector<std::int64_t> fallback = {});
std::string text_attribute(const onnx::NodeProto& node, const std::string& name, const std::string& fallback);

/// Whether its operator is ONNX's own.
bool is_standard(const onnx::NodeProto& node);
/// "Conv", or "com.microsoft.FusedConv".
std::string operator_name(const std::string& domain, const std::string& op);
std::string operator_of(const onnx::NodeProto& node);

}  // namespace pipesim
