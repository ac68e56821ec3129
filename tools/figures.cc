#include "tools/figures.h"

#include <fmt/format.h>

#include <array>

namespace pipesim {
namespace {

// The index of the prefix with which three digits of `value` read best; divides `value` by its scale.
std::size_t take_prefix(double& value, std::size_t prefixes) {
  std::size_t i = 0;
  for (; i + 1 < prefixes && value >= 999.5; ++i) value /= 1e3;
  return i;
}

}  // namespace

std::string pretty_count(std::int64_t count) {
  constexpr std::array prefixes{"", " k", " M", " B", " T"};
  auto value = static_cast<double>(count);
  const std::size_t prefix = take_prefix(value, prefixes.size());
  return fmt::format("{:.3g}{}", value, prefixes[prefix]);
}

std::string pretty(Flops flops) {
  constexpr std::array prefixes{"", "k", "M", "G", "T", "P", "E"};
  double value = flops.value;
  const std::size_t prefix = take_prefix(value, prefixes.size());
  return fmt::format("{:.3g} {}FLOP", value, prefixes[prefix]);
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

}  // namespace pipesim
