#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/model_json.h"
#include "models/operator_draft.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

/// The type that the model's builder was given. It does not outlive the builder, but weights have it, and
/// results of all operators that compute something, except that a loss is float32.
DataType model_type(const OperatorGraph& graph) {
  for (const Tensor& t : graph.tensors()) {
    if (t.kind == TensorKind::Weight) return t.type;
  }
  for (const Operator& op : graph.operators()) {
    if (!op.flops_forward.empty() && op.kind != "cross_entropy")
      return graph.tensor(op.uses.back().tensor).type;
  }
  return DataType::Float32;
}

Json value_json(const AttributeSchema& schema, const AttributeValue& value) {
  if (schema.type == AttributeType::Flag) return std::get<std::int64_t>(value) != 0;
  return std::visit([](const auto& v) { return Json(v); }, value);
}

void add_attributes(Json& json, const OperatorKind& kind, const Operator& op) {
  for (const AttributeSchema& schema : kind.attributes) {
    const AttributeValue& value = op.attributes.at(schema.name);
    if (value != schema.fallback) json[schema.name] = value_json(schema, value);
  }
}

/// Names of the tensors of a role that the operator makes, where the builder would call some of them
/// otherwise.
void add_names(Json& json, const std::string& key, Role role, const OperatorGraph& graph, const Operator& op,
               const OperatorDraft& draft) {
  Json names = Json::array();
  bool usual = true;
  for (const OperatorDraft::Made& made : draft.made()) {
    const TensorUse& use = op.uses[made.use];
    if (use.role != role) continue;
    names.push_back(graph.tensor(use.tensor).name);
    usual = usual && names.back() == made.full_name(op.name);
  }
  if (!usual) json[key] = std::move(names);
}

Json operator_json(const OperatorGraph& graph, const Operator& op, DataType type) {
  Json json{{"name", op.name}, {"kind", op.kind}, {"inputs", Json::array()}};
  std::vector<const Tensor*> inputs;
  for (const TensorUse& use : op.uses) {
    if (use.role != Role::Input && use.role != Role::Index) continue;
    inputs.push_back(&graph.tensor(use.tensor));
    json["inputs"].push_back(inputs.back()->name);
  }
  const OperatorKind& kind = operator_kind(op.kind);
  OperatorDraft draft(kind, op.name, op.attributes, inputs, type, graph.batch());
  kind.build(draft);
  add_names(json, "outputs", Role::Output, graph, op, draft);
  add_names(json, "weights", Role::Weight, graph, op, draft);
  if (!op.repeat.empty()) json["repeat"] = op.repeat;
  add_attributes(json, kind, op);
  return json;
}

/// The operator that makes the next result after a tensor; "" if none does.
std::string operator_after(const OperatorGraph& graph, std::size_t tensor) {
  for (std::size_t t = tensor; t < graph.tensors().size(); ++t) {
    const OperatorId producer = graph.tensors()[t].producer;
    if (producer.valid()) return graph.op(producer).name;
  }
  return "";
}

std::string lines(const std::vector<std::string>& items) {
  return items.empty() ? "[]" : fmt::format("[\n    {}\n  ]", fmt::join(items, ",\n    "));
}

}  // namespace

std::string to_json(const OperatorGraph& graph) {
  const DataType type = model_type(graph);
  std::vector<std::string> inputs, operators;
  bool at_the_front = true;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.kind != TensorKind::Data) {
      at_the_front = false;
      continue;
    }
    Json json{{"name", tensor.name}, {"shape", tensor.shape}};
    if (tensor.type != type) json["dtype"] = name_of(tensor.type);
    if (!at_the_front) json["before"] = operator_after(graph, t);
    inputs.push_back(json.dump());
  }
  for (const Operator& op : graph.operators()) operators.push_back(operator_json(graph, op, type).dump());
  return fmt::format(
      "{{\n  \"pipesim_model\": 1,\n  \"name\": {},\n  \"batch\": {},\n  \"dtype\": \"{}\",\n  \"inputs\": "
      "{},\n"
      "  \"operators\": {}\n}}\n",
      Json(graph.name()).dump(), graph.batch(), name_of(type), lines(inputs), lines(operators));
}

}  // namespace pipesim
