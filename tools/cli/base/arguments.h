#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// The subject of an option; help groups options by it.
enum class OptionGroup : std::uint8_t { Model, Pipeline, Search, Execution, Output };

/// A value that an option or an operand may have.
struct Choice {
  std::string name;          ///< "gpipe", or a form: "zb-auto:LIMIT"
  std::string meaning = {};  ///< a phrase; empty: the name says all
};

/// An option of a command, as help shows it.
struct Option {
  std::string name;           ///< without the dashes: "json"
  std::string argument;       ///< what follows it: "FILE"; empty: a flag
  std::string default_value;  ///< used when it is not given; empty: there is none
  std::string help;           ///< a short phrase without a full stop
  char letter = 0;            ///< 'o' for -o, 0: no short form
  bool repeated = false;      ///< may be given several times, see Arguments::texts
  std::string implied = {};   ///< its value without an argument (which '=' must join); empty: it needs one
  std::string details = {};   ///< sentences that only the long help has; empty: none
  OptionGroup group = OptionGroup::Model;
  std::vector<Choice> choices = {};  ///< what it may be, where that is a list
};

/// The same options, all in one group.
std::vector<Option> in_group(OptionGroup group, std::vector<Option> options);

/// A word of the command line that is no option.
struct Operand {
  std::string name;  ///< "MODEL"
  std::string help;
  bool required = true;
  bool repeated = false;  ///< takes all words that are left; only the last operand
  std::string details = {};
  std::vector<Choice> choices = {};
};

/// The words that a command was called with, checked against its options and operands. Everything here throws
/// UsageError.
class Arguments {
 public:
  /// Options may stand anywhere, as `--name value` or `--name=value`, each once unless it is repeated; after
  /// `--` all words are operands.
  Arguments(const std::string& command, const std::vector<Option>& options,
            const std::vector<Operand>& operands, const std::vector<std::string>& words);

  /// Whether the option is on the command line itself; for flags this is their value.
  [[nodiscard]] bool given(const std::string& option) const;
  /// Whether the option is given or has a default value.
  [[nodiscard]] bool has(const std::string& option) const { return values_.contains(option); }

  /// The values of options that take one; InternalError when has() is false.
  [[nodiscard]] const std::string& text(const std::string& option) const;
  /// All values of a repeated option, in order; none when it is not given.
  [[nodiscard]] std::vector<std::string> texts(const std::string& option) const;
  [[nodiscard]] std::int64_t integer(const std::string& option, std::int64_t lowest,
                                     std::int64_t highest) const;
  [[nodiscard]] double number(const std::string& option, double lowest = -std::numeric_limits<double>::max(),
                              double highest = std::numeric_limits<double>::max()) const;
  [[nodiscard]] Seconds duration(const std::string& option) const;  ///< "30 s", see parse_duration
  /// Returns the option's value, which must be one of `allowed`; the error says "did you mean".
  [[nodiscard]] const std::string& choice(const std::string& option,
                                          const std::vector<std::string>& allowed) const;

  /// Returns these arguments with another default value for an option that is not given.
  [[nodiscard]] Arguments with_default(const std::string& option, const std::string& value) const;

  /// Returns these arguments as if the option were given with this value, whatever it was before.
  [[nodiscard]] Arguments with(const std::string& option, const std::string& value) const;
  /// Whether the command has such an option.
  [[nodiscard]] bool knows(const std::string& option) const { return known_.contains(option); }
  /// The values of all options, given or by default, by name.
  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }

  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }

  /// Throws a UsageError `COMMAND: MESSAGE; see "pipesim help COMMAND"`.
  [[noreturn]] void refuse(const std::string& message) const;

  /// The command, and the words behind it as given.
  [[nodiscard]] const std::string& command() const { return command_; }
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

 private:
  std::string command_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;                   ///< flags that are given have the value ""
  std::map<std::string, std::vector<std::string>> all_values_;  ///< as given
  std::set<std::string> given_, known_;
  std::vector<std::string> operands_;
};

}  // namespace pipesim
