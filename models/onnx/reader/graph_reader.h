#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/onnx/onnx_model.h"
#include "models/onnx/reader/constant_readings.h"
#include "models/onnx/reader/graph_sizes.h"
#include "models/onnx/reader/node.h"

namespace pipesim {

/// Goes through the nodes of a file in order, and writes what they compute.
class OnnxReader {
 public:
  OnnxReader(const onnx::ModelProto& model, std::string source, const std::vector<NamedSize>& bound);
  OnnxModel read();

 private:
  using Values = std::unordered_map<std::string, OnnxValue>;
  using Opsets = std::unordered_map<std::string, std::int64_t>;
  struct Call;

  void read_inputs();
  void read_initializers(const onnx::GraphProto& graph);
  void read_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                  const std::unordered_set<const onnx::NodeProto*>& needed);
  void read_node(const onnx::NodeProto& node);
  /// Frees constants that no other node reads.
  void forget_inputs(const onnx::NodeProto& node);
  void read_condition(const onnx::NodeProto& node);
  void read_constant(const onnx::NodeProto& node);
  /// A weight where nodes read it as one, else a constant, or data where its values are not known.
  OnnxValue constant_value(const std::string& name, OnnxShape shape, int type,
                           std::optional<OnnxConstant> constant, ConstantReadings::Kind kind) const;
  bool read_weight_shape(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  bool read_shape(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  bool read_folded(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  bool read_data(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  bool read_by_rule(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs, std::string& why_not);
  bool read_function(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  bool read_own_kind(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs);
  void call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
            const std::vector<OnnxValue>& inputs);
  void read_opaque(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs, const std::string& why);

  [[nodiscard]] std::vector<OnnxValue> inputs_of(const onnx::NodeProto& node) const;
  /// Types of all results, of inference and of the file; InputError where one is not known.
  [[nodiscard]] std::vector<OnnxType> result_types(const onnx::NodeProto& node,
                                                   const std::vector<OnnxValue>& inputs) const;
  [[nodiscard]] std::optional<std::vector<OnnxType>> inferred(const onnx::NodeProto& node,
                                                              const std::vector<OnnxValue>& inputs) const;
  void check_shapes(const onnx::NodeProto& node, const std::vector<OnnxValue>& inputs,
                    const std::vector<OnnxValue>& results) const;
  [[nodiscard]] std::int64_t opset(const onnx::NodeProto& node) const;
  void give(const onnx::NodeProto& node, int place, OnnxValue value);
  void give_constant(const std::string& name, OnnxConstant constant);
  [[noreturn]] void fail(const onnx::NodeProto& node, const std::string& what) const;
  [[nodiscard]] std::vector<std::string> notes(const std::vector<TensorId>& results) const;
  [[nodiscard]] std::string note_of_unread() const;

  const onnx::ModelProto& model_;
  std::string source_;
  OnnxUses uses_, unread_;
  std::unordered_set<const onnx::NodeProto*> needed_;
  ConstantReadings readings_;
  GraphSizes sizes_;
  ModelWriter writer_;
  Values values_;
  Opsets opsets_;
  std::string prefix_;  ///< of names of values, within a function
  int depth_ = 0;       ///< of calls and branches
  std::size_t folded_elements_ = 0;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_map<std::string, OnnxType> told_;  ///< types that the file says
  struct Opaque {
    std::string what, node, why;
  };
  std::map<std::string, Opaque> opaque_;  ///< by operator that was written
};

/// Nodes that the graph's results need, and how many of them read each name. Branches read what their nodes
/// read.
std::unordered_set<const onnx::NodeProto*> needed_nodes(const onnx::GraphProto& graph, OnnxUses& uses);

/// Calls visit(name) for each name that a node reads; those that nodes of its branches read are among them.
template <class Visit>
void visit_reads(const onnx::NodeProto& node, const Visit& visit) {
  for (const std::string& input : node.input()) visit(input);
  for (const auto& attribute : node.attribute()) {
    const auto within = [&](const onnx::GraphProto& graph) {
      for (const onnx::NodeProto& inner : graph.node()) visit_reads(inner, visit);
      for (const auto& output : graph.output()) visit(output.name());
    };
    if (attribute.has_g()) within(attribute.g());
    for (const onnx::GraphProto& graph : attribute.graphs()) within(graph);
  }
}

}  // namespace pipesim
