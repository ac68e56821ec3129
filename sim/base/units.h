#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace pipesim {

/// Simulated time. Cost models speak in Seconds (double); rounding to nanoseconds happens once, when tasks
/// are built.
using Nanoseconds = std::int64_t;

/// A number with a unit. Quantities of different units do not mix.
template <class Unit, class Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Quantity<struct ByteUnit, std::int64_t>;
using Flops =
    Quantity<struct FlopUnit, double>;  ///< floating-point operations; a multiply and an add are two
using Seconds = Quantity<struct SecondUnit, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
  return Seconds(static_cast<double>(b.value) / r.value);
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value / r.value); }

/// Nearest nanosecond. Throws InputError when the time does not fit (over 292 years) or is not a number.
Nanoseconds to_nanoseconds(Seconds s);
constexpr Seconds to_seconds(Nanoseconds ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

/// Parse "16 GB", "1.5 GiB", "300 GB/s", "100 Gb/s" (bits), "3 us", "15.7 TFLOP/s". kB, MB, GB, TB are powers
/// of ten, KiB, MiB, GiB, TiB powers of two. The unit is required. Throws InputError whose text says what was
/// found and what is allowed; negative, zero (except for durations), infinite and NaN values are refused.
Bytes parse_bytes(std::string_view text);
BytesPerSecond parse_bandwidth(std::string_view text);
Seconds parse_duration(std::string_view text);
FlopsPerSecond parse_compute_rate(std::string_view text);

/// Short text ("300 GB/s") that the parsers above read back to exactly the same value.
std::string to_text(Bytes b);
std::string to_text(BytesPerSecond r);
std::string to_text(Seconds s);
std::string to_text(FlopsPerSecond r);

/// For people: three or four significant digits ("91.2 GB", "3.21 ms", "44.2 min"), not exact.
std::string pretty(Bytes b);
std::string pretty(BytesPerSecond r);
std::string pretty(Seconds s);
std::string pretty(FlopsPerSecond r);

/// The value with `digits` significant digits, but with all digits before the decimal point ("12346", "1.5",
/// "0.00213"). An exponent is used only below 1e-6 and from 1e15 on.
std::string significant(double value, int digits);

}  // namespace pipesim
