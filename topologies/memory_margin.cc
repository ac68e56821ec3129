#include "topologies/memory_margin.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "sim/base/errors.h"

namespace pipesim {

MemoryMargin MemoryMargin::parse(std::string_view text) {
  constexpr const char* kAllowed =
      "a share of each device's memory from 0% to below 100%, or a size such as 2 GB";
  MemoryMargin margin;
  if (text.ends_with('%')) {
    std::string_view digits = text.substr(0, text.size() - 1);
    if (digits.ends_with(' ')) digits.remove_suffix(1);
    constexpr double kWhole = 100;
    double percent = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
    const bool whole = error == std::errc{} && end == digits.data() + digits.size();
    // Written so that NaN is refused as well.
    if (!(whole && percent >= 0 && percent < kWhole))
      throw InputError(fmt::format("found \"{}\", allowed: {}", text, kAllowed));
    margin.share = percent / kWhole;
    return margin;
  }
  try {
    margin.bytes = parse_bytes(text);
  } catch (const InputError&) {
    throw InputError(fmt::format("found \"{}\", allowed: {}", text, kAllowed));
  }
  return margin;
}

Bytes MemoryMargin::of(Bytes memory) const {
  const double rounding = 1e-12;  // 10% of 10 bytes is one
  const double part = share * static_cast<double>(memory.value);
  return bytes + Bytes(static_cast<std::int64_t>(std::ceil(part * (1 - rounding))));
}

std::string MemoryMargin::str() const {
  return share > 0 ? fmt::format("{:.12g} %", share * 100) : bytes.value > 0 ? to_text(bytes) : "0 %";
}

}  // namespace pipesim
