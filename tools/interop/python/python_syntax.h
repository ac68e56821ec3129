#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// An expression or a statement of a program.
struct PythonNode {
  enum class Kind : std::uint8_t {
    // Expressions
    None,
    Truth,       ///< text: "True", "False"
    Number,      ///< text
    Text,        ///< text
    Name,        ///< text
    List,        ///< parts; tuples and sets as well
    Dictionary,  ///< parts: a key, its value, …
    Field,       ///< text of parts[0]
    Item,        ///< parts[0][parts[1]]
    Call,        ///< parts[0] is called with the others
    Keyword,     ///< text=parts[0], in a call
    Spread,      ///< *parts[0] or **parts[0]
    Sign,        ///< text: "+", "not", "in", …; one part or two
    Choice,      ///< parts[0] if parts[1] else parts[2]
    Unread,      ///< text, as it is written
    // Statements
    Assign,      ///< parts[0] = parts[1]; text: "=", "+=", …
    Expression,  ///< parts[0]
    Return,      ///< parts[0]
    Function,    ///< text; parts: a Keyword or a Name for each parameter, then its Block
    Block,       ///< parts
    Condition,   ///< parts[0] is tested, parts[1] and perhaps parts[2] are its blocks
    Loop,        ///< parts[2] for each parts[0] in parts[1]
    Import,      ///< text: the name here; parts[0]: a Name with the module and what it is there
    Empty,
    Skipped  ///< a statement that is not understood; text: its first word
  };
  Kind kind = Kind::Empty;
  std::string text = {};
  std::size_t line = 0;
  std::vector<PythonNode> parts = {};
};

/// A Block. `source`: the file's name, for messages. InputError `FILE:LINE: …` where a quote or bracket is
/// not closed.
PythonNode parse_python(std::string_view text, const std::string& source);

}  // namespace pipesim
