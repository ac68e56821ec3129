#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/reader/graph_reader.h"
#include "sim/base/errors.h"
#include "sim/base/utf8.h"

namespace pipesim {

namespace {

using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

}  // namespace

std::unordered_set<const NodeProto*> needed_nodes(const GraphProto& graph, OnnxUses& uses) {
  std::unordered_set<std::string> names;
  std::unordered_set<const NodeProto*> needed;
  for (const auto& output : graph.output()) {
    names.insert(output.name());
    ++uses[output.name()];
  }
  for (int i = graph.node_size(); i-- > 0;) {
    const NodeProto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const std::string& o) { return names.contains(o); }))
      continue;
    needed.insert(&node);
    visit_reads(node, [&](const std::string& name) {
      names.insert(name);
      ++uses[name];
    });
  }
  return needed;
}

void check_names(const onnx::ModelProto& model, const std::string& source) {
  const auto check = [&](const std::string& name) {
    if (const std::size_t bad = first_not_utf8(name); bad != std::string::npos)
      throw InputError(fmt::format("{}: a name is no UTF-8 from its byte {} on", source, bad));
  };
  const auto check_node = [&](const NodeProto& node) {
    for (const std::string* name : {&node.name(), &node.op_type(), &node.domain()}) check(*name);
    for (const std::string& output : node.output()) check(output);
  };
  const auto check_graph = [&](const GraphProto& graph, const auto& self) -> void {
    for (const TensorProto& tensor : graph.initializer()) check(tensor.name());
    for (const auto& sparse : graph.sparse_initializer()) check(sparse.values().name());
    for (const auto& input : graph.input()) check(input.name());
    for (const NodeProto& node : graph.node()) {
      check_node(node);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) self(attribute.g(), self);
      }
    }
  };
  check_graph(model.graph(), check_graph);
  for (const FunctionProto& function : model.functions()) {
    for (const NodeProto& node : function.node()) check_node(node);
  }
}

}  // namespace pipesim
