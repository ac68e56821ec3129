#include "models/onnx/reader/check_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/base/utf8.h"

namespace pipesim {
namespace {

class NameCheck {
 public:
  explicit NameCheck(const std::string& source) : source_(source) {}

  void graph(const onnx::GraphProto& graph) const {
    for (const auto& tensor : graph.initializer()) name(tensor.name());
    for (const auto& sparse : graph.sparse_initializer()) name(sparse.values().name());
    for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()}) {
      for (const auto& value : *list) {
        name(value.name());
        for (const auto& dim : value.type().tensor_type().shape().dim()) name(dim.dim_param());
      }
    }
    for (const auto& one : graph.node()) node(one);
  }

  void node(const onnx::NodeProto& node) const {
    for (const std::string* text : {&node.name(), &node.op_type(), &node.domain()}) name(*text);
    for (const std::string& input : node.input()) name(input);
    for (const std::string& output : node.output()) name(output);
    for (const auto& attribute : node.attribute()) {
      name(attribute.name());
      name(attribute.ref_attr_name());
      name(attribute.s());
      if (attribute.has_g()) graph(attribute.g());
      for (const auto& inner : attribute.graphs()) graph(inner);
    }
  }

  void name(const std::string& text) const {
    if (const std::size_t bad = first_not_utf8(text); bad != std::string::npos)
      throw InputError(fmt::format("{}: a name is no UTF-8 from its byte {} on", source_, bad));
    const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (const auto found = std::ranges::find_if(text, control); found != text.end())
      throw InputError(fmt::format("{}: a name has a control character, {}, at its byte {}", source_,
                                   static_cast<int>(*found), found - text.begin()));
  }

 private:
  const std::string& source_;
};

}  // namespace

void check_names(const onnx::ModelProto& model, const std::string& source) {
  const NameCheck check(source);
  check.graph(model.graph());
  for (const auto& function : model.functions()) {
    check.name(function.name());
    check.name(function.domain());
    for (const auto* list : {&function.input(), &function.output(), &function.attribute()}) {
      for (const std::string& text : *list) check.name(text);
    }
    for (const auto& node : function.node()) check.node(node);
  }
}

}  // namespace pipesim
