#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/units.h"

namespace pipesim {

/// A place inside a JSON document. Every accessor either returns what it promises or throws an InputError
/// that reads `FILE: /json/pointer: found …, allowed …`.
class JsonValue {
 public:
  [[nodiscard]] const std::string& source() const;                       ///< the file's name
  [[nodiscard]] const std::string& pointer() const { return pointer_; }  ///< RFC 6901, "" is the root

  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;

  /// A required member; missing is an error that names it.
  [[nodiscard]] JsonValue at(std::string_view key) const;
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;
  /// Refuses members with other names, with "did you mean".
  void allow_only(std::initializer_list<std::string_view> keys) const;
  void allow_only(const std::vector<std::string>& keys) const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonValue>> members() const;  ///< in the file's order
  [[nodiscard]] std::vector<JsonValue> items() const;

  [[nodiscard]] std::string string() const;
  [[nodiscard]] std::int64_t integer(std::int64_t lowest, std::int64_t highest) const;
  [[nodiscard]] double number(double lowest = -std::numeric_limits<double>::max(),
                              double highest = std::numeric_limits<double>::max()) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::int64_t lowest, std::int64_t highest) const;

  [[nodiscard]] Bytes bytes() const;  ///< a string with a unit, see units.h
  [[nodiscard]] BytesPerSecond bandwidth() const;
  [[nodiscard]] Seconds duration() const;
  [[nodiscard]] FlopsPerSecond compute_rate() const;
  [[nodiscard]] DataType data_type() const;

  /// Throws `FILE: POINTER: MESSAGE`.
  [[noreturn]] void fail(const std::string& message) const;
  [[nodiscard]] std::string kind() const;  ///< "a string", "an object", … for messages
  [[nodiscard]] std::string text() const;  ///< the value as short JSON text, for messages

 private:
  friend class JsonDocument;
  struct Tree;
  JsonValue(std::shared_ptr<const Tree> tree, const void* node, std::string pointer)
      : tree_(std::move(tree)), node_(node), pointer_(std::move(pointer)) {}

  std::shared_ptr<const Tree> tree_;
  const void* node_;
  std::string pointer_;
};

/// Parses JSON strictly: UTF-8 only, no comments, no repeated keys. Syntax errors name line and column.
/// Infinity and NaN, which Python writes, are read as null, since no file here needs them.
class JsonDocument {
 public:
  static JsonValue parse(std::string_view text, const std::string& source);
  static JsonValue load(const std::string& path);
};

}  // namespace pipesim
