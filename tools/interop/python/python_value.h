#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {

struct PythonValue;
/// Names and fields share what they hold, as in the language.
using PythonReference = std::shared_ptr<PythonValue>;

/// What an expression gives.
struct PythonValue {
  enum class Kind : std::uint8_t {
    None,
    Truth,   ///< number is 1 or 0
    Number,  ///< number
    Text,
    List,    ///< items
    Object,  ///< text is its class, "" where it is not known; fields
    Code     ///< text is the expression
  };
  Kind kind = Kind::None;
  std::string text = {};
  double number = 0;
  bool whole = false;  ///< a Number without a fraction
  std::size_t line = 0;
  std::vector<PythonReference> items = {};
  std::vector<std::pair<std::string, PythonReference>> fields = {};
  std::string origin =
      {};  ///< of an Object whose class is not known: where it was found, as maker(name).field

  /// nullptr: nobody has set it.
  [[nodiscard]] PythonReference field(std::string_view name) const;
  void set(const std::string& name, PythonReference value);
  [[nodiscard]] bool is_constant() const { return kind != Kind::Object && kind != Kind::Code; }
  [[nodiscard]] bool holds() const;  ///< of a constant: whether it counts as true
};

PythonReference python_object(std::string name, std::size_t line);
PythonReference python_code(std::string text, std::size_t line);
PythonReference python_number(double number, bool whole, std::size_t line);
PythonReference python_truth(bool truth, std::size_t line);
PythonReference python_text(std::string text, std::size_t line);

}  // namespace pipesim
