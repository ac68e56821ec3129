#include "models/operator_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/graph_builder.h"
#include "models/operators/families.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr double highest_integer = 2147483647;

std::vector<OperatorKind> collect() {
  std::vector<OperatorKind> kinds;
  for (const auto family : operator_families) {
    for (OperatorKind& kind : family()) kinds.push_back(std::move(kind));
  }
  std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return kinds;
}

bool in_range(const AttributeSchema& schema, double value) {
  return value >= schema.lowest && value <= schema.highest;
}

/// The value in the form the schema wants, or none if it is not allowed.
std::optional<AttributeValue> converted(const AttributeSchema& schema, const AttributeValue& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (schema.type == AttributeType::Word) {
    const auto* word = std::get_if<std::string>(&value);
    const bool known = word != nullptr &&
                       (schema.is_text() || std::count(schema.words.begin(), schema.words.end(), *word) > 0);
    return known ? std::optional(value) : std::nullopt;
  }
  if (schema.type == AttributeType::Real) {
    const auto* stored = std::get_if<double>(&value);
    if (stored == nullptr && integer == nullptr) return std::nullopt;
    const double real = stored != nullptr ? *stored : static_cast<double>(*integer);
    return in_range(schema, real) ? std::optional<AttributeValue>(real) : std::nullopt;
  }
  if (schema.type == AttributeType::Integers) {
    const auto* stored = std::get_if<std::vector<std::int64_t>>(&value);
    if (stored == nullptr && integer == nullptr) return std::nullopt;
    std::vector<std::int64_t> list = stored != nullptr ? *stored : std::vector{*integer};
    const auto fits = [&](std::int64_t v) { return in_range(schema, static_cast<double>(v)); };
    const bool good = std::all_of(list.begin(), list.end(), fits);
    return good ? std::optional<AttributeValue>(std::move(list)) : std::nullopt;
  }
  const bool good = integer != nullptr && in_range(schema, static_cast<double>(*integer));
  return good ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string allowed_text(const AttributeSchema& schema) {
  switch (schema.type) {
    case AttributeType::Flag:
      return "0 or 1";
    case AttributeType::Integer:
      return fmt::format("an integer from {:.0f} to {:.0f}", schema.lowest, schema.highest);
    case AttributeType::Integers:
      return fmt::format("integers from {:.0f} to {:.0f}", schema.lowest, schema.highest);
    case AttributeType::Real:
      return fmt::format("a number from {} to {}", schema.lowest, schema.highest);
    case AttributeType::Word:
      break;
  }
  return schema.is_text() ? "a text" : fmt::format("{}", fmt::join(schema.words, ", "));
}

OperatorGraph example_graph(const OperatorKind& kind, const std::string& name) {
  constexpr std::int64_t kSamples = 64;
  GraphBuilder builder("example", kSamples);
  std::vector<TensorId> inputs;
  for (const OperatorExample::Input& input : kind.example.inputs)
    inputs.push_back(builder.data(input.name, input.shape, input.type));
  builder.add_all(kind.name, name, inputs, kind.example.attributes);
  return builder.build();
}

AttributeSchema AttributeSchema::flag(std::string name, bool fallback, std::string help) {
  return {std::move(name), AttributeType::Flag, AttributeValue(std::int64_t{fallback}), 0, 1, {},
          std::move(help)};
}

AttributeSchema AttributeSchema::integer(std::string name, std::string help,
                                         std::optional<std::int64_t> fallback, std::int64_t lowest) {
  return {std::move(name), AttributeType::Integer, fallback, static_cast<double>(lowest), highest_integer, {},
          std::move(help)};
}

AttributeSchema AttributeSchema::integers(std::string name, std::string help,
                                          std::optional<std::vector<std::int64_t>> fallback,
                                          std::int64_t lowest) {
  return {std::move(name),     AttributeType::Integers,
          std::move(fallback), static_cast<double>(lowest),
          highest_integer,     {},
          std::move(help)};
}

AttributeSchema AttributeSchema::real(std::string name, std::string help, double lowest, double highest,
                                      std::optional<double> fallback) {
  return {std::move(name), AttributeType::Real, fallback, lowest, highest, {}, std::move(help)};
}

AttributeSchema AttributeSchema::word(std::string name, std::string help, std::vector<std::string> words,
                                      std::string fallback) {
  return {std::move(name), AttributeType::Word, std::move(fallback), 0, 0, std::move(words), std::move(help)};
}

AttributeSchema AttributeSchema::text(std::string name, std::string help) {
  return {std::move(name), AttributeType::Word, std::nullopt, 0, 0, {}, std::move(help)};
}

const AttributeSchema* OperatorKind::find_attribute(std::string_view attribute) const {
  for (const AttributeSchema& schema : attributes) {
    if (schema.name == attribute) return &schema;
  }
  return nullptr;
}

std::span<const OperatorKind> operator_kinds() {
  static const std::vector<OperatorKind> kinds = collect();
  return kinds;
}

const OperatorKind& operator_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const OperatorKind& kind : operator_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw InputError(
      fmt::format("unknown operator kind \"{}\"{}, allowed: one of the {} that `pipesim models "
                  "--kinds` lists",
                  name, did_you_mean(name, names), names.size()));
}

bool is_attention(std::string_view kind) {
  const auto kinds = operator_kinds();
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const OperatorKind& k) { return k.name == kind && k.attention; });
}

Attributes complete_attributes(const OperatorKind& kind, const Attributes& given) {
  std::vector<std::string> names;
  for (const AttributeSchema& schema : kind.attributes) names.push_back(schema.name);
  Attributes complete;
  for (const auto& [name, value] : given) {
    const AttributeSchema* schema = kind.find_attribute(name);
    if (schema == nullptr) {
      throw InputError(fmt::format("unknown attribute \"{}\"{}, allowed: {}", name, did_you_mean(name, names),
                                   names.empty() ? "none" : list_names(names)));
    }
    auto fitting = converted(*schema, value);
    if (!fitting) {
      throw InputError(
          fmt::format("attribute \"{}\" is {}, allowed: {}", name, to_text(value), allowed_text(*schema)));
    }
    complete[name] = std::move(*fitting);
  }
  for (const AttributeSchema& schema : kind.attributes) {
    if (complete.count(schema.name) > 0) continue;
    if (!schema.fallback) {
      throw InputError(fmt::format("attribute \"{}\" is missing ({})", schema.name, schema.help));
    }
    complete[schema.name] = *schema.fallback;
  }
  return complete;
}

std::string to_text(const AttributeValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* word = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *word);
  return to_text(std::get<std::vector<std::int64_t>>(value));
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace pipesim
