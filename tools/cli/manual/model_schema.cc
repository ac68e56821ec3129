#include "tools/cli/manual/model_schema.h"

#include <nlohmann/json.hpp>

#include "models/named_sizes.h"
#include "models/operator_kind.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const char* definition) { return {{"$ref", std::string("#/definitions/") + definition}}; }

// What the definition allows, and integers in bounds of their own.
Json integer_schema(double lowest, double highest) {
  return {{"anyOf", Json::array({{{"type", "integer"},
                                  {"minimum", static_cast<std::int64_t>(lowest)},
                                  {"maximum", static_cast<std::int64_t>(highest)}},
                                 reference("expression")})}};
}

Json value_schema(const AttributeSchema& schema) {
  switch (schema.type) {
    case AttributeType::Flag:
      return {{"enum", Json::array({false, true, 0, 1})}};
    case AttributeType::Integer:
      return integer_schema(schema.lowest, schema.highest);
    case AttributeType::Integers: {
      Json one = integer_schema(schema.lowest, schema.highest);
      Json list{{"type", "array"}, {"items", one}};
      one["anyOf"].push_back(std::move(list));
      return one;
    }
    case AttributeType::Real:
      return {{"type", "number"}, {"minimum", schema.lowest}, {"maximum", schema.highest}};
    case AttributeType::Word:
      break;
  }
  if (schema.is_text()) return {{"type", "string"}};
  return {{"enum", schema.words}};
}

// The schema of operators of one kind, with what all kinds have.
Json kind_schema(const OperatorKind& kind, const Json& common) {
  Json properties = common, required = Json::array();
  for (auto& [name, value] : properties.items()) value = true;
  for (const AttributeSchema& schema : kind.attributes) {
    Json value = value_schema(schema);
    value["description"] = schema.help;
    if (schema.fallback) {
      const Json fallback = std::visit([](const auto& v) { return Json(v); }, *schema.fallback);
      value["default"] = schema.type == AttributeType::Flag ? Json(fallback != 0) : fallback;
    } else {
      required.push_back(schema.name);
    }
    properties[schema.name] = std::move(value);
  }
  Json then{
      {"description", kind.help}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) then["required"] = std::move(required);
  return {{"if", {{"properties", {{"kind", {{"const", kind.name}}}}}}}, {"then", std::move(then)}};
}

Json operator_schema() {
  Json kinds = Json::array(), conditions = Json::array();
  const Json names = reference("names");
  Json properties{
      {"name", {{"type", "string"}, {"minLength", 1}}},
      {"kind", Json::object()},
      {"inputs", names},
      {"outputs", names},
      {"weights", names},
      {"repeat", {{"type", "string"}, {"description", "equal for operators that repeat one another"}}},
      {"frozen", {{"type", "boolean"}, {"description", "its weights are not trained"}}}};
  for (const OperatorKind& kind : operator_kinds()) {
    kinds.push_back(kind.name);
    conditions.push_back(kind_schema(kind, properties));
  }
  properties["kind"] = {{"enum", std::move(kinds)}};
  return {{"type", "object"},
          {"required", {"name", "kind"}},
          {"properties", std::move(properties)},
          {"allOf", std::move(conditions)}};
}

}  // namespace

std::string model_schema() {
  const Json types{"float32", "tf32", "float16", "bfloat16", "float64", "int64", "int32", "uint8"};
  const Json input{{"type", "object"},
                   {"required", {"name", "shape"}},
                   {"properties",
                    {{"name", {{"type", "string"}, {"minLength", 1}}},
                     {"shape", {{"type", "array"}, {"maxItems", 8}, {"items", reference("size")}}},
                     {"dtype", {{"enum", types}}},
                     {"before", {{"type", "string"}}},
                     {"content", {{"enum", {"causal_mask"}}}}}},
                   {"additionalProperties", false}};
  const Json sizes{{"description", "sizes by name, which --set and --batch change"},
                   {"type", "object"},
                   {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
                   {"additionalProperties", reference("size")}};
  const Json batch{{"description", "samples: a number, or the name of a size"},
                   {"anyOf", Json::array({{{"type", "integer"}, {"minimum", 1}, {"maximum", kLargestSize}},
                                          {{"type", "string"}, {"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}})}};
  const Json expression{{"description", "names of sizes and numbers, with * and / between them"},
                        {"type", "string"},
                        {"pattern", "^ *[A-Za-z0-9_]+ *([*/] *[A-Za-z0-9_]+ *)*$"}};
  Json schema{
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "A model of pipesim: operators and the tensors between them"},
      {"description",
       "docs/files.md explains it. A file that this schema accepts "
       "may still be refused, for instance because shapes do not fit."},
      {"type", "object"},
      {"required", {"pipesim_model", "name", "batch", "inputs", "operators"}},
      {"properties",
       {{"pipesim_model", {{"const", 1}}},
        {"name", {{"type", "string"}}},
        {"sizes", sizes},
        {"batch", batch},
        {"dtype", {{"enum", {"float32", "tf32", "float16", "bfloat16", "float64"}}}},
        {"fuse", {{"type", "boolean"}, {"description", "joins operators that are written one by one"}}},
        {"inputs", {{"type", "array"}, {"items", input}}},
        {"operators", {{"type", "array"}, {"items", operator_schema()}}}}},
      {"additionalProperties", false},
      {"definitions",
       {{"names", {{"type", "array"}, {"items", {{"type", "string"}}}}},
        {"expression", expression},
        {"size", integer_schema(1, static_cast<double>(kLargestSize))}}}};
  return schema.dump(2) + "\n";
}

}  // namespace pipesim
