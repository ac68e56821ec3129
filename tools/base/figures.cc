#include "tools/base/figures.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

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
  return significant(value, 3) + prefixes[prefix];
}

std::string pretty(Flops flops) {
  constexpr std::array prefixes{"", "k", "M", "G", "T", "P", "E"};
  double value = flops.value;
  const std::size_t prefix = take_prefix(value, prefixes.size());
  return fmt::format("{} {}FLOP", significant(value, 3), prefixes[prefix]);
}

std::string pretty_rate(double samples_per_second) {
  return significant(samples_per_second, 4) + " samples/s";
}

std::string faster_than(std::string_view other, double times) {
  constexpr double kSame = 5e-4, kFewPercent = 1.1;
  if (std::abs(times - 1) < kSame) return fmt::format("as fast as {}", other);
  if (times > 1 && times < kFewPercent)
    return fmt::format("{:.1f} % faster than {}", 100 * (times - 1), other);
  if (times < 1 && times > 1 / kFewPercent)
    return fmt::format("{:.1f} % slower than {}", 100 * (1 / times - 1), other);
  if (times < 1) return fmt::format("{} times as long as {}", significant(1 / times, 3), other);
  return fmt::format("{} times as fast as {}", significant(times, 3), other);
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string change_text(Nanoseconds before, Nanoseconds after) {
  constexpr double kPercent = 100;
  const double less = kPercent * (1 - static_cast<double>(after) / static_cast<double>(before));
  return fmt::format("{:.1f} % {}", std::abs(less), less >= 0 ? "less" : "more");
}

}  // namespace pipesim
