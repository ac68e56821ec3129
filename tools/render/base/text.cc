#include "tools/render/base/text.h"

#include "tools/base/split.h"
#include "tools/render/base/table.h"

namespace pipesim {

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  for (const std::string& line : split(text, "\n")) {
    std::string current(indent, ' ');
    std::size_t used = indent;
    for (const std::string& word : split(line, " ")) {
      const std::size_t needed = display_width(word);
      if (used > indent && used + 1 + needed > width) {
        result += current + "\n";
        current = std::string(indent, ' ');
        used = indent;
      }
      current += (used > indent ? " " : "") + word;
      used += (used > indent ? 1 : 0) + needed;
    }
    result += used > indent ? current + "\n" : "\n";
  }
  return result;
}

}  // namespace pipesim
