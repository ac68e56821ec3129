#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "models/model_json.h"
#include "models/operator_draft.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const AttributeSchema& schema, const AttributeValue& value) {
  if (schema.type == AttributeType::Flag) return std::get<std::int64_t>(value) != 0;
  return std::visit([](const auto& v) { return Json(v); }, value);
}

void add_attributes(Json& json, const OperatorKind& kind, const Operator& op) {
  for (const AttributeSchema& schema : kind.attributes) {
    const auto found = op.attributes.find(schema.name);
    if (found != op.attributes.end() && found->second != schema.fallback)
      json[schema.name] = value_json(schema, found->second);
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
  const auto is_frozen = [&](const TensorUse& use) { return graph.tensor(use.tensor).frozen; };
  if (std::ranges::any_of(op.uses, is_frozen)) json["frozen"] = true;
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

// The next string, number or other character of a JSON text.
std::string_view next_token(std::string_view text) {
  std::size_t end = 1;
  if (text.front() == '"') {
    while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return text.substr(0, end + 1);
  }
  const auto numeric = [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == '+' || c == '-';
  };
  if ((text.front() < '0' || text.front() > '9') && text.front() != '-') return text.substr(0, 1);
  while (end < text.size() && numeric(text[end])) ++end;
  return text.substr(0, end);
}

// A number of `token` that is twice as large in `other`, in terms of the batch; none if it grew otherwise.
std::optional<std::string> in_terms_of_batch(std::string_view token, std::string_view other,
                                             std::int64_t batch) {
  const auto integer = [](std::string_view text) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  const auto one = integer(token), two = integer(other);
  if (!one || !two || *two != 2 * *one || *one % batch != 0) return std::nullopt;
  return *one == batch ? "\"b\"" : fmt::format("\"{}*b\"", *one / batch);
}

}  // namespace

std::string to_json_with_batch(const OperatorGraph& graph, const OperatorGraph& doubled) {
  const std::string text = to_json(graph), twice = to_json(doubled);
  constexpr std::string_view kBatch = "\"batch\"";
  std::string result;
  bool named = false;  // the model's name has gone by, which may tell the batch
  for (std::string_view one = text, two = twice; !one.empty() || !two.empty();) {
    if (one.empty() || two.empty()) return text;
    const std::string_view a = next_token(one), b = next_token(two);
    if (a == kBatch && !named) {
      result += fmt::format("\"sizes\": {{\"b\": {}}},\n  ", graph.batch());
      named = true;
    }
    if (a == b || !named) {
      result += a;
    } else if (const auto expression = in_terms_of_batch(a, b, graph.batch())) {
      result += *expression;
    } else {
      return text;
    }
    one.remove_prefix(a.size());
    two.remove_prefix(b.size());
  }
  const bool same =
      parse_model(result, "the model") == graph &&
      parse_model(result, "the model", {{"b", doubled.batch()}}).fingerprint() == doubled.fingerprint();
  return same ? result : text;
}

std::string to_json(const OperatorGraph& graph) {
  const DataType type = graph.type_of_results();
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
