#include "sim/base/json_text.h"

namespace pipesim {

std::string spaced_json(std::string_view compact) {
  std::string text;
  bool quoted = false, escaped = false;
  for (const char c : compact) {
    text += c;
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',' || c == ':') {
      text += ' ';
    }
  }
  return text;
}

}  // namespace pipesim
