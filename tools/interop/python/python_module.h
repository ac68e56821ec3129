#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/python/python_syntax.h"
#include "tools/interop/python/python_value.h"

namespace pipesim {

/// What a file's own statements say; nothing else is run. A class, or a function of another module, gives an
/// object of its whole name; an object's field that nobody has set is an object without a class.
class PythonModule {
 public:
  /// `source`: the file's name, for messages. InputError `FILE:LINE: …` where it is no program.
  PythonModule(std::string_view text, const std::string& source);

  /// Functions that need no arguments, in the order of the file.
  [[nodiscard]] std::vector<std::string> functions() const;
  /// What the function returns; None where nothing tells. It is among functions().
  PythonReference call(const std::string& function);
  /// A name of the module; nullptr without it.
  [[nodiscard]] PythonReference value(const std::string& name) const;
  /// Calls of functions of other modules that stand alone, such as register(…), in turn: as objects.
  [[nodiscard]] const std::vector<PythonReference>& calls() const { return calls_; }
  /// "line 12: …": statements that were not followed.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  using Names = std::map<std::string, PythonReference>;
  struct Returned {
    PythonReference value;
  };

  void run(const PythonNode& block, Names& names);
  void run_statement(const PythonNode& statement, Names& names);
  void run_condition(const PythonNode& statement, Names& names);
  void run_loop(const PythonNode& statement, Names& names);
  void assign(const PythonNode& target, const PythonReference& value, Names& names);
  PythonReference evaluate(const PythonNode& node, Names& names);
  PythonReference name(const PythonNode& node, const Names& names);
  PythonReference field_of(const PythonReference& owner, const std::string& name, std::size_t line);
  PythonReference call(const PythonNode& node, Names& names);
  PythonReference call_own(const PythonNode& function, const PythonNode& node, Names& names);
  PythonReference put(const std::vector<PythonReference>& arguments, std::size_t line);
  PythonReference copy(const PythonReference& object, std::size_t line);
  PythonReference sign(const PythonNode& node, Names& names);
  PythonReference joined(const PythonNode& node, const PythonReference& left, const PythonReference& right);
  void skip(std::size_t line, const std::string& what);
  void step(std::size_t line);

  std::string source_;
  PythonNode tree_;
  std::map<std::string, const PythonNode*> functions_;
  std::vector<std::string> order_;
  Names names_;
  std::vector<PythonReference> calls_;
  std::vector<std::string> notes_;
  int depth_ = 0;
  std::int64_t steps_ = 0;
  bool inside_ = false;  // a function that was called
};

}  // namespace pipesim
