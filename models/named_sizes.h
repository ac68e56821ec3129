#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_reader.h"

namespace pipesim {

/// A size that a model file names, and its value.
struct NamedSize {
  std::string name;
  std::int64_t value = 1;
  bool operator==(const NamedSize&) const = default;
};

inline constexpr std::int64_t kLargestSize = 2147483647;

/// "b=64, h=512".
std::string to_text(const std::vector<NamedSize>& sizes);

/// The sizes of one model file, and the reader of expressions that stand for numbers in it: a name, or a
/// product and quotient of names and numbers from left to right, such as "4*h" or "h/heads". Quotients must
/// be whole numbers.
class NamedSizes {
 public:
  NamedSizes() = default;
  /// Reads the file's member "sizes": each value is a number, or an expression of numbers and of sizes above
  /// it. `bound` replaces values of the file; InputError when the file names no such size.
  NamedSizes(const JsonValue& root, const std::vector<NamedSize>& bound);

  [[nodiscard]] const std::vector<NamedSize>& list() const { return sizes_; }
  [[nodiscard]] bool has(std::string_view name) const;

  /// The integer at a place of the file, written as a number or as an expression.
  [[nodiscard]] std::int64_t integer(const JsonValue& value, std::int64_t lowest, std::int64_t highest) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const JsonValue& value, std::int64_t lowest,
                                                   std::int64_t highest) const;

 private:
  [[nodiscard]] std::int64_t operand(const JsonValue& value, std::string_view text) const;
  [[nodiscard]] std::int64_t evaluated(const JsonValue& value) const;

  std::vector<NamedSize> sizes_;
};

}  // namespace pipesim
