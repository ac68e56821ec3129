#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/shell/shell_text.h"

namespace pipesim {

/// `> file`, or a here-document.
struct ShellRedirect {
  std::string sign;
  ShellText target;                 ///< as written
  std::shared_ptr<ShellText> here;  ///< lines of a here-document
  bool expands = true;              ///< its variables are replaced
};

/// A command of a script, or several that belong together. Words are kept as they are written.
struct ShellNode {
  enum class Kind : std::uint8_t {
    Command,
    Pipe,      ///< `parts` at the same time
    Chain,     ///< `parts`, with && ("&") or || ("|") between them
    If,        ///< `lists`: condition, body, condition, body, …, and a last body for "else"
    For,       ///< `name` is each of `words`; the body is `parts`
    Count,     ///< for ((…; …; …)): `words` are the three
    While,     ///< `lists`: condition, body
    Case,      ///< `words`: its subject; `patterns` and `lists` of each branch
    Group,     ///< `parts` in braces, or in parentheses
    Function,  ///< `name`, and `parts`
    Test,      ///< [[ words ]]
    Sum        ///< (( words[0] ))
  };
  Kind kind = Kind::Command;
  ShellPlace place = {};
  std::string name = {};
  std::vector<ShellText> words = {};
  std::vector<ShellRedirect> redirects = {};
  std::vector<ShellNode> parts = {};
  std::string joints = {};  ///< of a chain
  std::vector<std::vector<ShellNode>> lists = {};
  std::vector<std::vector<ShellText>> patterns = {};
  bool negated = false;
  bool until = false;  ///< a loop that ends when its condition holds
  bool apart = false;  ///< a group whose variables end with it
};

using ShellList = std::vector<ShellNode>;

/// The commands of a script. InputError `FILE:LINE: …` where a quote, parenthesis or block is not closed;
/// `files` are the names for places.
ShellList parse_shell(const ShellText& text, const std::vector<std::string>& files);

/// The words of an array's parentheses, as written.
std::vector<ShellText> shell_words(const ShellText& text, const std::vector<std::string>& files);

}  // namespace pipesim
