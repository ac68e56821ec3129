#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/interop/shell/shell_arithmetic.h"
#include "tools/interop/shell/shell_parser.h"
#include "tools/interop/shell/shell_script.h"

namespace pipesim {

/// Follows the commands of one script, for read_shell_script(): its variables, and what is found.
class ShellRun {
 public:
  ShellRun(std::string_view text, const std::string& source, const ShellMachine& machine);
  ShellScript result();

 private:
  /// One text, a list, or texts by names.
  struct Value {
    bool list = false, named = false;
    std::vector<std::pair<std::string, ShellText>> items;  ///< none: it is not set
  };
  struct Found {
    bool set = false, known = false, several = false;
    std::vector<ShellText> values = {};
  };
  struct Fields {
    std::vector<ShellText> done;
    ShellText now;
    bool open = false;
    void end();
    void add(char c, ShellPlace place);
    void add(const ShellText& text, bool splits);
  };
  /// What ends with a subshell.
  struct State {
    std::map<std::string, Value, std::less<>> variables;
    std::vector<ShellText> arguments;
    bool knows_arguments = false;
    std::optional<std::string> folder;
  };
  struct Assignment {
    std::string name;
    std::optional<ShellText> key = std::nullopt;
    bool adds = false;
    ShellText value = {};
  };
  enum class Flow : std::uint8_t { Next, Break, Continue, Return, Exit };
  enum class Status : std::uint8_t { True, False, Program, Unknown };

  // Words (shell_expansion.cc).
  std::vector<ShellText> fields(const ShellText& raw);
  ShellText joined(const ShellText& raw, bool quoted = false);
  void expand(const ShellText& raw, bool quoted, bool splits, Fields& out);
  void expand_part(const ShellText& part, bool quoted, bool splits, Fields& out);
  void expand_parameter(const ShellText& inner, const ShellText& part, bool quoted, bool splits, Fields& out);
  bool expand_default(const Found& found, const std::string& name, const ShellText& change,
                      const ShellText& part, bool quoted, bool splits, Fields& out);
  std::optional<ShellText> changed(const ShellText& value, const ShellText& change);
  void put(const Found& found, const ShellText& part, bool quoted, bool splits, Fields& out);
  Found find(const std::string& name, const std::optional<ShellText>& key);
  Found find_special(const std::string& name) const;
  std::string key_text(const Value* value, const ShellText& key);
  std::optional<ShellText> substituted(const ShellText& commands);
  std::optional<std::int64_t> sum(const ShellText& raw);
  std::optional<std::int64_t> number_of(const std::string& name);
  void set(const std::string& name, ShellText value);
  void set_unknown(const std::string& name, ShellPlace place);
  void tell_unset(const std::string& name);

  // Commands (shell_run.cc).
  Flow run(const ShellList& list);
  Flow run(const ShellNode& node);
  Flow run_chain(const ShellNode& node);
  Flow run_pipe(const ShellNode& node);
  Flow run_if(const ShellNode& node);
  Flow run_for(const ShellNode& node);
  Flow run_count(const ShellNode& node);
  Flow run_while(const ShellNode& node);
  Flow run_case(const ShellNode& node);
  Flow run_group(const ShellNode& node);
  Flow run_simple(const ShellNode& node);
  Flow run_function(const ShellNode& function, const std::vector<ShellText>& words);
  std::optional<Flow> run_builtin(const ShellNode& node, const std::vector<ShellText>& words);
  std::optional<Flow> run_shell(const std::vector<ShellText>& words);
  Flow run_text(const ShellText& text);
  Flow run_file(const std::string& path, const std::vector<ShellText>& arguments, bool apart);
  void start_program(const std::vector<ShellText>& words);
  bool holds(const ShellList& condition, const std::vector<const ShellList*>& bodies, ShellPlace place);
  void declare(const ShellNode& node, std::size_t from);
  std::optional<Assignment> assignment_in(const ShellText& word) const;
  void assign(const Assignment& assignment);
  void assign_value(const Assignment& assignment);
  void export_value(const std::string& name);
  void keep_words(const ShellText& value);
  void assign_list(Value& value, const Assignment& assignment);
  void print(const ShellNode& node, const std::vector<ShellText>& words);
  void write(const ShellNode& node, const ShellText& text);
  std::optional<ShellText> printed(const std::vector<ShellText>& words, const ShellNode& node);

  // Conditions and files (shell_conditions.cc).
  Status test(const std::vector<ShellText>& operands);
  Status test_raw(const std::vector<ShellText>& raw);
  Status test_any(const std::vector<ShellText>& words, std::size_t& at, bool raw, int depth);
  Status test_all(const std::vector<ShellText>& words, std::size_t& at, bool raw, int depth);
  Status test_one(const std::vector<ShellText>& words, std::size_t& at, bool raw, int depth);
  Status compared(const ShellText& left, const std::string& sign, const ShellText& right, bool pattern);
  Status asked(const std::string& what, const ShellText& operand);
  std::optional<std::string> file_of(const ShellText& name, ShellPlace place, bool tells);

  [[nodiscard]] std::optional<std::int64_t> counted_devices(const ShellNode& pipe) const;
  [[noreturn]] void fail(ShellPlace place, const std::string& message) const;
  [[nodiscard]] std::string where(ShellPlace place) const;
  void note(ShellPlace place, const std::string& message);
  void count_step(ShellPlace place);
  void read_directives(std::string_view text);

  ShellMachine machine_;
  std::vector<std::string> files_;
  std::size_t current_ = 0, started_ = 0;  ///< files of BASH_SOURCE and of $0
  ShellScript script_;
  State state_;
  std::map<std::string, std::shared_ptr<const ShellNode>, std::less<>> functions_;
  std::vector<std::map<std::string, Value, std::less<>>> locals_;  ///< what functions have hidden
  ShellText* capture_ = nullptr;                                   ///< what commands print
  bool captures_all_ = true;                                       ///< and whether it is known
  bool asks_ = false;                                              ///< within a condition
  std::set<std::string> unset_;     ///< variables that a condition has found empty
  std::set<std::string> exported_;  ///< variables that programs see
  Status status_ = Status::True;
  int depth_ = 0;
  std::size_t steps_ = 0;
  ShellText whole_;
};

/// Whether a pattern with *, ? and […] matches a whole text.
bool shell_matches(std::string_view pattern, std::string_view text);

}  // namespace pipesim
