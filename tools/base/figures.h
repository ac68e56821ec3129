#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/units.h"

namespace pipesim {

/// Figures for people, three significant digits, as sim/base/units.h writes the other units.
std::string pretty_count(std::int64_t count);        ///< "175 B", "25.6 M", "9.41 k", "12"
std::string pretty(Flops flops);                     ///< "8.18 GFLOP"
std::string percent(double share);                   ///< "12.5 %"
std::string pretty_rate(double samples_per_second);  ///< "7097 samples/s"
/// "1.3 times as fast as data-parallel", where it takes 1/1.3 of the time; "2.4 % faster than data-parallel",
/// "as fast as data-parallel", "0.3 % slower than …" (it takes 1.003 times as long), "2 times as long as …".
std::string faster_than(std::string_view other, double times);

std::string change_text(Nanoseconds before, Nanoseconds after);  ///< "9.0 % less", "4.1 % more"

/// The part's share of the whole; 0 when the whole is 0.
inline double share(Nanoseconds part, Nanoseconds whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Seconds, the unit of time in files.
inline double seconds(Nanoseconds ns) { return to_seconds(ns).value; }

}  // namespace pipesim
