#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The arguments of Megatron-LM that stand in a file: alone, in a shell script that launches a run, or as
/// `--flag: value` in YAML. Words after a flag, up to the next one, are its values. Of a flag that stands
/// there twice the last counts. Of shell scripts, comments, quotes, lines continued by a backslash and
/// variables with plain values are understood; nothing is run.
class MegatronFile {
 public:
  /// `source`: the file's name, for messages. InputError when no argument stands there, or a quote is open.
  static MegatronFile parse(std::string_view text, const std::string& source);
  static MegatronFile load(const std::string& path);

  /// Whether the flag is there; not as `--flag: false`.
  [[nodiscard]] bool given(std::string_view flag) const;
  /// Its first value; "" without one. Nothing when it is not given.
  [[nodiscard]] std::optional<std::string> text(std::string_view flag) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view flag) const;
  /// A whole number up to 2^20. InputError `FILE:LINE: --flag: found "x", allowed: …` otherwise.
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view flag, std::int64_t least = 1) const;
  /// The same; InputError `FILE: --flag is missing` without it.
  [[nodiscard]] std::int64_t required(std::string_view flag) const;
  [[nodiscard]] std::optional<double> rate(std::string_view flag) const;    ///< from 0 up to 1
  [[nodiscard]] std::optional<double> factor(std::string_view flag) const;  ///< above 0
  [[nodiscard]] std::optional<double> real(std::string_view flag) const;    ///< from 0 on
  /// InputError `FILE:LINE: --flag: MESSAGE`, without the line where the flag is not given.
  [[noreturn]] void fail(std::string_view flag, const std::string& message) const;
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  [[nodiscard]] std::optional<double> number(std::string_view flag) const;
  struct Given {
    std::size_t line = 0;
    std::vector<std::string> values;
  };
  [[nodiscard]] const Given* find(std::string_view flag) const;

  std::string source_;
  std::map<std::string, Given, std::less<>> given_;
};

}  // namespace pipesim
