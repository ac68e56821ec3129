#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator.h"

namespace pipesim {

class OperatorDraft;
class OperatorGraph;

enum class AttributeType : std::uint8_t {
  Flag,  ///< 0 or 1; true or false in a file
  Integer,
  Integers,  ///< a list; one integer stands for a list of one
  Real,
  Word  ///< one of AttributeSchema::words; any text where there are none
};

/// What a kind of operator accepts under one name.
struct AttributeSchema {
  std::string name;
  AttributeType type = AttributeType::Integer;
  std::optional<AttributeValue> fallback;  ///< none: required
  double lowest = 0, highest = 0;          ///< of numbers, and of each element of a list
  std::vector<std::string> words;
  std::string help;

  static AttributeSchema flag(std::string name, bool fallback, std::string help);
  /// Required unless a fallback is given; from 1 unless `lowest` says otherwise, to 2³¹ − 1.
  static AttributeSchema integer(std::string name, std::string help,
                                 std::optional<std::int64_t> fallback = {}, std::int64_t lowest = 1);
  static AttributeSchema integers(std::string name, std::string help,
                                  std::optional<std::vector<std::int64_t>> fallback = {},
                                  std::int64_t lowest = 1);
  static AttributeSchema real(std::string name, std::string help, double lowest, double highest,
                              std::optional<double> fallback = {});
  static AttributeSchema word(std::string name, std::string help, std::vector<std::string> words,
                              std::string fallback);
  /// Any text, required.
  static AttributeSchema text(std::string name, std::string help);
  [[nodiscard]] bool is_text() const { return type == AttributeType::Word && words.empty(); }
};

/// Inputs and attributes of an example that is shown to people: 64 samples, float32.
struct OperatorExample {
  struct Input {
    std::string name;
    std::vector<std::int64_t> shape;
    DataType type = DataType::Float32;
  };
  std::vector<Input> inputs;
  Attributes attributes;
};

/// A kind of operator: what it takes, and the function that writes down its factors, uses and work.
struct OperatorKind {
  std::string name, help;
  std::string inputs;  ///< for people: "x[n, c, h, w]"
  std::size_t least_inputs = 1, most_inputs = 1;
  std::vector<AttributeSchema> attributes;
  OperatorExample example;
  void (*build)(OperatorDraft&) = nullptr;
  bool attention = false;  ///< weighs values by how well a query meets their keys

  [[nodiscard]] const AttributeSchema* find_attribute(std::string_view attribute) const;
};

/// All kinds, sorted by name.
std::span<const OperatorKind> operator_kinds();
/// InputError `unknown operator kind "linaer" (did you mean "linear"?), allowed: …`.
const OperatorKind& operator_kind(std::string_view name);
/// False for names that no kind has.
bool is_attention(std::string_view kind);

/// The attributes with every default filled in and single integers turned into lists where the schema wants a
/// list. InputError without the operator's name: `unknown attribute "ot" (did you mean "out"?)`, `attribute
/// "out" is 0, allowed: integers from 1 to 2147483647`.
Attributes complete_attributes(const OperatorKind& kind, const Attributes& given);

/// For people: "an integer from 0 to 1024", "one of none, relu".
std::string allowed_text(const AttributeSchema& schema);

/// The graph of a kind's example: the inputs, and the operator `name` on them.
OperatorGraph example_graph(const OperatorKind& kind, const std::string& name);

std::string to_text(const AttributeValue& value);             ///< `[3, 3]`, `0.5`, `"relu"`
std::string to_text(const std::vector<std::int64_t>& shape);  ///< `[64, 10]`

}  // namespace pipesim
