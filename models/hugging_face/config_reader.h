#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_reader.h"

namespace pipesim {

/// Reads a config.json, or an object in it, and remembers which keys were read. Configs call the same size by
/// different names, so sizes are asked for by all of them.
class ConfigReader {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Objects "attn_config" and "ffn_config", in which MPT and DBRX keep some keys, count as parts of it.
  explicit ConfigReader(JsonValue config);

  [[nodiscard]] const JsonValue& config() const { return config_; }
  /// Null says as little as a key that is not there.
  [[nodiscard]] std::optional<JsonValue> value(std::string_view key) const;
  [[nodiscard]] std::optional<JsonValue> value(Names names) const;  ///< of the first that is there

  /// From 1 on; InputError if it is missing, or if two names say different sizes.
  [[nodiscard]] std::int64_t size(Names names) const;
  [[nodiscard]] std::int64_t size_or(Names names, std::int64_t otherwise) const;  ///< from 0 on
  [[nodiscard]] bool flag_or(Names names, bool otherwise) const;
  [[nodiscard]] double number_or(Names names, double lowest, double highest, double otherwise) const;
  [[nodiscard]] std::optional<std::string> word(Names names) const;
  /// The quotient of two sizes; an error that names both where it is none.
  [[nodiscard]] std::int64_t quotient(Names whole, Names part) const;

  /// The object of this name, read by a reader of its own, whose keys count for themselves. InputError if it
  /// is something else.
  [[nodiscard]] std::optional<ConfigReader> object(std::string_view key) const;

  /// Keys that say something and were not read, but for those that no model depends on.
  [[nodiscard]] std::vector<std::string> unread_keys() const;
  /// A note for each of them: "PREFIXkey = value: not known, left out".
  void note_unread_keys(std::string_view prefix, std::vector<std::string>& notes) const;
  /// Says that these decide nothing, or were read in another way.
  void pass_over(Names names) const { read_.insert(names.begin(), names.end()); }

 private:
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;

  JsonValue config_;
  std::vector<JsonValue> parts_;
  mutable std::set<std::string, std::less<>> read_;
};

/// Null, false, zero and what is empty ask for nothing.
bool says_nothing(const JsonValue& value);
/// The last part of a value's pointer.
std::string key_of(const JsonValue& value);

}  // namespace pipesim
