#pragma once

#include <cstdint>
#include <string>

#include "sim/base/units.h"

namespace pipesim {

/// Figures for people, three significant digits, as sim/base/units.h writes the other units.
std::string pretty_count(std::int64_t count);  ///< "175 B", "25.6 M", "9.41 k", "12"
std::string pretty(Flops flops);               ///< "8.18 GFLOP"
std::string percent(double share);             ///< "12.5 %"

/// 0 of nothing.
inline double share(Nanoseconds part, Nanoseconds whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// For files, which hold seconds.
inline double seconds(Nanoseconds ns) { return to_seconds(ns).value; }

}  // namespace pipesim
