#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/shell/shell_script.h"

namespace pipesim {

/// The arguments of Megatron-LM that stand in a file: alone, in a shell script that launches a run (see
/// ShellScript), or as `--flag: value` in YAML. Words after a flag, up to the next one, are its values. Where
/// a flag stands twice, the last one counts. Older names of flags are taken as today's.
class MegatronFile {
 public:
  /// `source`: the file's name, for messages. InputError when no argument stands there, or a quote is open.
  /// `machine`: what scripts are told of the devices that they will run on.
  static MegatronFile parse(std::string_view text, const std::string& source,
                            const ShellMachine& machine = {});
  /// Makes a file from arguments that came from another form of file, each with its place.
  static MegatronFile of_words(const std::vector<ShellWord>& words, const std::string& source);
  static MegatronFile load(const std::string& path, const ShellMachine& machine = {});

  /// Returns whether the flag is given; `--flag: false` does not count.
  [[nodiscard]] bool given(std::string_view flag) const;
  /// Returns the flag's first value, or "" without one; nothing when the flag is not given.
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

  /// The program that is launched, as "pretrain_gpt.py"; "": the arguments stand alone.
  [[nodiscard]] const std::string& program() const { return program_; }
  /// Returns the value of a flag of the launcher, such as --nproc-per-node of torchrun.
  [[nodiscard]] std::optional<std::string> launch_text(std::string_view flag) const;
  /// A variable that the script hands to the program, by export, before its name, or as an argument of the
  /// launcher such as `-x NAME=VALUE`.
  [[nodiscard]] std::optional<std::string> variable(const std::string& name) const;
  /// The flags that are given, as they are written, in the order of the file.
  [[nodiscard]] std::vector<std::string> flags() const;
  /// Today's name of a flag as it is written.
  [[nodiscard]] static std::string modern(const std::string& flag);
  /// "line 12: …": what had to be assumed to read the file.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// The text of a file that the script writes, or that stands beside it.
  [[nodiscard]] std::optional<std::string> file_named(const std::string& name) const;

 private:
  struct Given {
    std::string place;    ///< FILE:LINE
    std::string written;  ///< the flag
    std::vector<std::string> values;
  };
  using Arguments = std::map<std::string, Given, std::less<>>;

  void read_script(std::string_view text, const ShellMachine& machine);
  void read_words(const std::vector<ShellWord>& words, Arguments& to);
  void read_yaml(std::string_view text);
  void add(const ShellWord& word, const std::string& flag, std::vector<std::string> values, Arguments& to);
  [[noreturn]] void fail_without_arguments() const;
  [[noreturn]] void fail_without_launch(const ShellScript& script) const;
  [[nodiscard]] std::optional<double> number(std::string_view flag) const;
  [[nodiscard]] const Given* find(std::string_view flag) const;

  std::string source_, program_;
  Arguments given_, launch_;
  std::vector<std::string> order_, notes_, missing_;
  std::map<std::string, std::string> written_, variables_;
};

}  // namespace pipesim
