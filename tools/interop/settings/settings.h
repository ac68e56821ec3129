#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A value of a configuration.
struct Setting {
  enum class Kind : std::uint8_t {
    None,
    Truth,   ///< text is "true" or "false"
    Number,  ///< text is as it is written
    Text,
    List,    ///< items
    Object,  ///< text is its class; its fields are settings of their own
    Code     ///< text is an expression whose value no file tells
  };
  std::string path;   ///< "training.seq_len"
  std::string place;  ///< FILE:LINE
  Kind kind = Kind::None;
  std::string text = {};
  std::vector<Setting> items = {};

  /// Returns the value as a file would write it: 8, "all", [1, 2].
  [[nodiscard]] std::string str() const;
};

/// The settings of a configuration, in the order of its file. One that is set twice has its last value.
class Settings {
 public:
  explicit Settings(std::string source) : source_(std::move(source)) {}

  void set(Setting setting);
  void rename(std::string_view from, const std::string& to);
  [[nodiscard]] const std::vector<Setting>& all() const { return all_; }
  [[nodiscard]] const std::string& source() const { return source_; }

  /// Returns the setting of a path; nullptr: it is not set, or set to nothing.
  [[nodiscard]] const Setting* find(std::string_view path) const;
  [[nodiscard]] bool given(std::string_view path) const { return find(path) != nullptr; }
  /// InputError `FILE:LINE: PATH: found …, allowed: …` when the value is of another kind.
  [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
  [[nodiscard]] std::optional<bool> truth(std::string_view path) const;
  /// A whole number up to 2^40, which is what tokens of an iteration need.
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view path, std::int64_t least = 1) const;
  [[nodiscard]] std::optional<double> real(std::string_view path) const;
  /// Returns count() of a path that must be set; InputError `FILE: PATH is missing` otherwise.
  [[nodiscard]] std::int64_t required(std::string_view path) const;
  /// Returns one of the allowed words, or `otherwise` where the path is not set.
  [[nodiscard]] std::string word(std::string_view path, std::string_view otherwise,
                                 std::initializer_list<std::string_view> allowed) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view path) const;
  [[nodiscard]] bool is_on(std::string_view path) const { return truth(path).value_or(false); }

  /// InputError `FILE:LINE: PATH: MESSAGE`, without the line where it is not set.
  [[noreturn]] void fail(std::string_view path, const std::string& message) const;

 private:
  [[noreturn]] void fail_value(const Setting& setting, const std::string& allowed) const;

  std::string source_;
  std::vector<Setting> all_;
};

}  // namespace pipesim
