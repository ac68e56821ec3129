#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/data_type.h"

namespace pipesim {

/// A size or choice that a zoo model offers as key=value.
struct ZooOption {
  enum class Kind : std::uint8_t { Integer, Integers, Real, Word, Pattern };
  std::string key;
  Kind kind = Kind::Integer;
  std::string default_value;
  double lowest = 0, highest = 0;  ///< Integer, Integers, Real: both allowed
  std::vector<std::string> words;  ///< Word: the allowed ones
  std::string help;                ///< one line: meaning and unit

  static ZooOption integer(std::string key, std::int64_t value, std::int64_t lowest, std::int64_t highest,
                           std::string help);
  /// One number, or several as "1000+50+7".
  static ZooOption integers(std::string key, std::int64_t value, std::int64_t lowest, std::int64_t highest,
                            std::string help);
  static ZooOption real(std::string key, double value, double lowest, double highest, std::string help);
  static ZooOption word(std::string key, std::vector<std::string> words, const std::string& value,
                        std::string help);
  /// Letters, digits, parentheses and hyphens, which the model reads itself.
  static ZooOption pattern(std::string key, const std::string& value, std::string help);

  [[nodiscard]] std::string allowed() const;  ///< "an integer from 1 to 64", "one of float32, float16"
  /// The value in its shortest spelling ("08" is "8"). InputError `KEY must be ALLOWED, got "VALUE"`.
  [[nodiscard]] std::string checked(std::string_view value) const;
  bool operator==(const ZooOption&) const = default;
};

using ZooOptions = std::vector<ZooOption>;

/// A list attribute of an operator: dimensions, a kernel, axes.
using Sizes = std::vector<std::int64_t>;

/// The options that every model has.
ZooOption batch_option(std::int64_t value, const std::string& why);
ZooOption dtype_option(const std::string& value = "float32");
/// The rate of all the model's dropout operators; 0 leaves them out.
ZooOption dropout_option(double value);

/// A value for each option of one model, all checked.
class ZooValues {
 public:
  /// `assignments`: "key=value,key=value" or "". InputError on unknown or repeated keys and bad values.
  ZooValues(std::string model, const ZooOptions& options, std::string_view assignments);

  [[nodiscard]] bool has(const std::string& key) const { return values_.contains(key); }
  [[nodiscard]] std::int64_t integer(const std::string& key) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& key) const;
  [[nodiscard]] double real(const std::string& key) const;
  [[nodiscard]] const std::string& word(const std::string& key) const;  ///< the text of any option
  [[nodiscard]] DataType data_type() const;                             ///< option dtype

  /// `MODEL:key=value` with the options that differ from their defaults, in the table's order: texts that
  /// mean the same model have the same name, and the name alone builds it again.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// For options that do not go together. Throws InputError `model "NAME": MESSAGE`.
  [[noreturn]] void fail(const std::string& message) const;
  /// The quotient; fails with `PART=… does not divide WHOLE=…`.
  [[nodiscard]] std::int64_t quotient(const std::string& whole, const std::string& part) const;

 private:
  std::string name_;
  std::map<std::string, std::string> values_;
};

}  // namespace pipesim
