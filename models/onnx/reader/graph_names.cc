#include <algorithm>

#include "models/onnx/reader/graph_reader.h"

namespace pipesim {

namespace {

using onnx::GraphProto;
using onnx::NodeProto;

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

}  // namespace pipesim
