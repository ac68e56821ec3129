#include "tools/interop/megatron/megatron_layout.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace pipesim {
namespace {

// Writes out repetitions such as (ab)*3, or such as a*3.
std::string repeated_layout(const std::string& text, bool groups) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = groups && text[at] == '(' ? text.find(')', at) : at;
    if (close == std::string::npos) return text;
    const bool group = groups && text[at] == '(';
    const std::string unit = group ? text.substr(at + 1, close - at - 1) : text.substr(at, 1);
    std::size_t next = close + 1, times = 1;
    const bool counts = next + 1 < text.size() && text[next] == '*' && (group || !groups);
    if (counts) {
      const char* const end = text.data() + text.size();
      const auto [stopped, error] = std::from_chars(text.data() + next + 1, end, times);
      constexpr std::size_t kMost = 10'000;
      if (error != std::errc() || times > kMost) return text;
      next = static_cast<std::size_t>(stopped - text.data());
    }
    constexpr std::size_t kLongest = 1 << 20;
    if (result.size() + times * unit.size() > kLongest) return text;
    for (std::size_t i = 0; i < times; ++i) result += unit;
    at = next;
  }
  return result;
}

}  // namespace

std::optional<std::vector<std::int64_t>> stages_of_megatron_layout(const std::string& layout,
                                                                   bool predicts_more) {
  std::string flat;
  for (const char c : layout) {
    if (c != ',') flat += c;
  }
  flat = repeated_layout(repeated_layout(flat, true), false);
  std::vector<std::int64_t> stages{0};
  for (const char c : flat) {
    if (c == '|') {
      stages.push_back(0);
    } else if (c == 't') {
      ++stages.back();
    } else if (c != 'E' && c != 'L' && !(c == 'm' && predicts_more)) {
      return std::nullopt;
    }
  }
  const bool in_order = !flat.empty() && flat.front() == 'E' && flat.back() == 'L' &&
                        std::ranges::count(flat, 'E') == 1 && std::ranges::count(flat, 'L') == 1;
  if (!in_order) return std::nullopt;
  return stages;
}

}  // namespace pipesim
