#include "sim/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

struct UnitName {
  std::string_view name;
  double scale;
};

constexpr double kKibi = 1024.0;
constexpr std::array kByteUnits{UnitName{"B", 1},
                                UnitName{"kB", 1e3},
                                UnitName{"MB", 1e6},
                                UnitName{"GB", 1e9},
                                UnitName{"TB", 1e12},
                                UnitName{"KiB", kKibi},
                                UnitName{"MiB", kKibi* kKibi},
                                UnitName{"GiB", kKibi* kKibi* kKibi},
                                UnitName{"TiB", kKibi* kKibi* kKibi* kKibi}};
constexpr std::array kBandwidthUnits{UnitName{"B/s", 1},
                                     UnitName{"kB/s", 1e3},
                                     UnitName{"MB/s", 1e6},
                                     UnitName{"GB/s", 1e9},
                                     UnitName{"TB/s", 1e12},
                                     UnitName{"Mb/s", 1e6 / 8},
                                     UnitName{"Gb/s", 1e9 / 8},
                                     UnitName{"Tb/s", 1e12 / 8},
                                     UnitName{"MiB/s", kKibi* kKibi},
                                     UnitName{"GiB/s", kKibi* kKibi* kKibi}};
constexpr std::array kDurationUnits{UnitName{"ns", 1e-9}, UnitName{"us", 1e-6}, UnitName{"µs", 1e-6},
                                    UnitName{"ms", 1e-3}, UnitName{"s", 1},     UnitName{"min", 60},
                                    UnitName{"h", 3600},  UnitName{"d", 86'400}};
constexpr std::array kRateUnits{UnitName{"FLOP/s", 1}, UnitName{"MFLOP/s", 1e6}, UnitName{"GFLOP/s", 1e9},
                                UnitName{"TFLOP/s", 1e12}, UnitName{"PFLOP/s", 1e15}};

// Multiplying by 1e-9 rounds twice; dividing by 1e9 rounds once, so "500 ns" is the same number as "0.5 us".
double to_base(double number, double scale) {
  return scale >= 1 ? number * scale : number / std::round(1 / scale);
}
double from_base(double value, double scale) {
  return scale >= 1 ? value / scale : value * std::round(1 / scale);
}

struct Dimension {
  std::string_view what;     // "a bandwidth"
  std::string_view example;  // "300 GB/s"
  std::span<const UnitName> units;
};

std::string unit_names(std::span<const UnitName> units) {
  std::string text;
  for (const UnitName& u : units) text += (text.empty() ? "" : ", ") + std::string(u.name);
  return text;
}

[[noreturn]] void refuse(std::string_view text, const Dimension& d, std::string_view reason) {
  throw InputError(fmt::format("\"{}\" is not {}: {}; write a number and one of {}, like \"{}\"", text,
                               d.what, reason, unit_names(d.units), d.example));
}

double parse(std::string_view text, const Dimension& d, bool zero_allowed) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) refuse(text, d, "the number is too large or too small");
  if (error != std::errc{}) refuse(text, d, "it does not start with a number");
  if (!std::isfinite(number)) refuse(text, d, "it is not finite");
  if (number < 0) refuse(text, d, "it is negative");
  if (number == 0 && !zero_allowed) refuse(text, d, "it is zero");
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) refuse(text, d, "the unit is missing");
  for (const UnitName& u : d.units) {
    if (u.name == unit) return to_base(number, u.scale);
  }
  refuse(text, d, fmt::format("unknown unit \"{}\"", unit));
}

// The largest unit in which the value has a short exact form, so that parsing gives it back.
std::string exact(double value, std::span<const UnitName> units, std::size_t count) {
  for (std::size_t i = count; i-- > 0;) {
    const double scaled = value / units[i].scale;
    const std::string digits = fmt::format("{}", scaled);
    const bool plain = digits.size() <= 12 && digits.find('e') == std::string::npos;
    if (scaled >= 1 && plain && std::stod(digits) * units[i].scale == value)
      return digits + " " + std::string(units[i].name);
  }
  return fmt::format("{} {}", value, units[0].name);
}

std::string short_form(double value, std::span<const UnitName> units, std::size_t count) {
  std::size_t i = 0;
  while (i + 1 < count && value >= 999.5 * units[i].scale) ++i;
  return fmt::format("{} {}", significant(value / units[i].scale, 3), units[i].name);
}

constexpr std::array kPrettyByteUnits{UnitName{"B", 1},    UnitName{"kB", 1e3},  UnitName{"MB", 1e6},
                                      UnitName{"GB", 1e9}, UnitName{"TB", 1e12}, UnitName{"PB", 1e15},
                                      UnitName{"EB", 1e18}};
constexpr std::array kPrettyBandwidthUnits{UnitName{"B/s", 1},     UnitName{"kB/s", 1e3},
                                           UnitName{"MB/s", 1e6},  UnitName{"GB/s", 1e9},
                                           UnitName{"TB/s", 1e12}, UnitName{"PB/s", 1e15}};

constexpr std::size_t kDecimalByteUnits = 5;

}  // namespace

Nanoseconds to_nanoseconds(Seconds s) {
  const double ns = s.value * 1e9;
  constexpr double kLargest = 9.2e18;
  if (!(std::abs(ns) < kLargest))
    throw InputError(fmt::format("a time of {} s is too large to simulate", s.value));
  return std::llround(ns);
}

Bytes parse_bytes(std::string_view text) {
  const Dimension d{"a size in bytes", "16 GB", kByteUnits};
  const double value = parse(text, d, false);
  if (value >= 9.2e18) refuse(text, d, "it is too large");
  if (value < 1) refuse(text, d, "it is less than one byte");
  return Bytes(static_cast<std::int64_t>(std::llround(value)));
}
BytesPerSecond parse_bandwidth(std::string_view text) {
  return BytesPerSecond(parse(text, {"a bandwidth", "300 GB/s", kBandwidthUnits}, false));
}
Seconds parse_duration(std::string_view text) {
  const Dimension d{"a duration", "3 us", kDurationUnits};
  const double value = parse(text, d, true);
  if (value > 9e9) refuse(text, d, "it is too large");
  return Seconds(value);
}
FlopsPerSecond parse_compute_rate(std::string_view text) {
  return FlopsPerSecond(parse(text, {"a compute rate", "15.7 TFLOP/s", kRateUnits}, false));
}

std::string to_text(Bytes b) { return exact(static_cast<double>(b.value), kByteUnits, kDecimalByteUnits); }
std::string to_text(BytesPerSecond r) { return exact(r.value, kBandwidthUnits, kDecimalByteUnits); }
std::string to_text(Seconds s) {
  constexpr std::array order{UnitName{"ns", 1e-9}, UnitName{"us", 1e-6}, UnitName{"ms", 1e-3},
                             UnitName{"s", 1}};
  if (s.value == 0) return "0 s";
  for (std::size_t i = order.size(); i-- > 0;) {
    const double scaled = from_base(s.value, order[i].scale);
    const std::string digits = fmt::format("{:.12g}", scaled);
    if (scaled >= 1 && digits.find('e') == std::string::npos &&
        to_base(std::stod(digits), order[i].scale) == s.value)
      return digits + " " + std::string(order[i].name);
  }
  return fmt::format("{} s", s.value);
}
std::string to_text(FlopsPerSecond r) { return exact(r.value, kRateUnits, kRateUnits.size()); }

std::string significant(double value, int digits) {
  constexpr double kLeast = 1e-6, kMost = 1e15;
  const double magnitude = std::abs(value);
  if (!std::isfinite(value) || magnitude >= kMost || (value != 0 && magnitude < kLeast))
    return fmt::format("{:.{}g}", value, digits);
  std::string text = fmt::format("{:.{}e}", value, digits - 1);  // rounds, which may add a digit
  const int exponent = std::stoi(text.substr(text.find('e') + 1)), behind = digits - 1 - exponent;
  text = fmt::format("{:.{}f}", value, std::max(0, behind));
  if (behind > 0) text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string pretty(Bytes b) {
  const double magnitude = std::abs(static_cast<double>(b.value));
  return (b.value < 0 ? "-" : "") + short_form(magnitude, kPrettyByteUnits, kPrettyByteUnits.size());
}
std::string pretty(BytesPerSecond r) {
  return short_form(r.value, kPrettyBandwidthUnits, kPrettyBandwidthUnits.size());
}
std::string pretty(Seconds s) {
  constexpr std::array order{UnitName{"ns", 1e-9}, UnitName{"us", 1e-6}, UnitName{"ms", 1e-3},
                             UnitName{"s", 1}};
  constexpr UnitName minutes{"min", 60}, hours{"h", 3600}, days{"d", 86'400};
  constexpr double kMostSeconds = 999.5, kMostMinutes = 120, kMostHours = 72;
  const double magnitude = std::abs(s.value);
  const std::string sign = s.value < 0 ? "-" : "";
  if (magnitude < kMostSeconds) return sign + short_form(magnitude, order, order.size());
  const UnitName& unit = magnitude < kMostMinutes * minutes.scale ? minutes
                         : magnitude < kMostHours * hours.scale   ? hours
                                                                  : days;
  return sign + short_form(magnitude, std::span(&unit, 1), 1);
}
std::string pretty(FlopsPerSecond r) { return short_form(r.value, kRateUnits, kRateUnits.size()); }

}  // namespace pipesim
