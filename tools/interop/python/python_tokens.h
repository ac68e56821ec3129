#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {

struct PythonToken {
  enum class Kind : std::uint8_t { Name, Number, Text, Sign, Line, Indent, Dedent, End };
  Kind kind = Kind::End;
  std::string text = {};  ///< of a Text, without its quotes
  std::size_t line = 0;
  bool formatted = false;  ///< a Text with an f in front, which holds expressions
};

/// The words of a program; Line ends a line that brackets do not continue. InputError `FILE:LINE: …` where a
/// quote or a bracket is not closed.
std::vector<PythonToken> python_tokens(std::string_view text, const std::string& source);

/// The sign that joins two values at this token, "" without one, and how firmly. `next`: the one behind it.
std::pair<std::string, int> joining_sign(const PythonToken& token, const PythonToken& next);

}  // namespace pipesim
