#include "tools/interop/shell/shell_parts.h"

#include <cctype>

namespace pipesim {
std::size_t end_of_shell_block(std::string_view text, std::size_t at, char open, char close,
                               int depth_of_parts) {
  for (std::size_t depth = 1; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (c == '\'' || c == '"' || c == '`' || (c == '$' && at + 1 < text.size())) {
      const std::size_t end = end_of_shell_part(text, at, depth_of_parts + 1);
      if (end == std::string_view::npos) return end;
      at = end;
    } else {
      if (c == open) ++depth;
      ++at;
      if (c == close && --depth == 0) return at;
    }
  }
  return std::string_view::npos;
}

std::size_t end_of_shell_part(std::string_view text, std::size_t begin, int depth) {
  constexpr std::size_t kOpen = std::string_view::npos;
  constexpr int kDeepest = 100;
  if (depth > kDeepest) return kOpen;
  const char c = text[begin];
  if (c == '\'') {
    const std::size_t end = text.find('\'', begin + 1);
    return end == kOpen ? kOpen : end + 1;
  }
  if (c == '"' || c == '`') {
    for (std::size_t at = begin + 1; at < text.size();) {
      if (text[at] == c) return at + 1;
      if (text[at] == '\\') {
        at += 2;
      } else if (c == '"' && (text[at] == '$' || text[at] == '`')) {
        at = end_of_shell_part(text, at, depth + 1);
        if (at == kOpen) return kOpen;
      } else {
        ++at;
      }
    }
    return kOpen;
  }
  const std::string_view rest = text.substr(begin);
  if (rest.starts_with("$(")) return end_of_shell_block(text, begin + 2, '(', ')', depth);
  if (rest.starts_with("${")) return end_of_shell_block(text, begin + 2, '{', '}', depth);
  if (rest.starts_with("$'")) {
    for (std::size_t at = begin + 2; at < text.size(); ++at) {
      if (text[at] == '\\') {
        ++at;
      } else if (text[at] == '\'') {
        return at + 1;
      }
    }
    return kOpen;
  }
  const std::size_t name = shell_name_length(rest.substr(1));
  if (name > 0) return begin + 1 + name;
  const bool special = rest.size() > 1 && std::string_view("@*#?$!-0123456789").find(rest[1]) != kOpen;
  return begin + (special ? 2 : 1);
}

std::size_t shell_name_length(std::string_view text) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (text.empty() || !letter(text.front())) return 0;
  std::size_t length = 1;
  while (length < text.size() &&
         (letter(text[length]) || std::isdigit(static_cast<unsigned char>(text[length])) != 0))
    ++length;
  return length;
}

}  // namespace pipesim
