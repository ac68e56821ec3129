#include "executor/gpu/activity/clock_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Quartz clocks are right to some 1e-4, and time servers slow a clock down or speed it up by 5e-4 at most
// (adjtimex(2)).
constexpr double most_clock_drift = 1e-3;

Nanoseconds pair_width(const ClockPair& pair) { return pair.host_after - pair.host_before; }
Nanoseconds host_midpoint(const ClockPair& pair) { return pair.host_before + pair_width(pair) / 2; }
double half_pair_width(const ClockPair& pair) {
  return static_cast<double>(pair.host_after - host_midpoint(pair));  // the longer half, if they differ
}

ClockPair narrowest_pair(std::span<const ClockPair> pairs, const char* when) {
  if (pairs.empty()) throw DeviceError(fmt::format("the GPU's clock was not read at the {}", when));
  const ClockPair best =
      *std::min_element(pairs.begin(), pairs.end(),
                        [](const ClockPair& a, const ClockPair& b) { return pair_width(a) < pair_width(b); });
  if (pair_width(best) < 0) throw DeviceError(fmt::format("the host's clock ran backwards at the {}", when));
  return best;
}

}  // namespace

ClockAlignment::ClockAlignment(std::span<const ClockPair> at_start, std::span<const ClockPair> at_stop)
    : start_(narrowest_pair(at_start, "start")),
      stop_(narrowest_pair(at_stop, "stop")),
      host_(host_midpoint(start_)) {
  const Nanoseconds gpu = stop_.gpu - start_.gpu, host = host_midpoint(stop_) - host_;
  if (gpu <= 0 || host <= 0)
    throw DeviceError(
        fmt::format("while the host's clock advanced by {} ns, the GPU's did by {} ns", host, gpu));
  drift_ = static_cast<double>(host - gpu) / static_cast<double>(gpu);
}

// Times are too large for a double, and the drift is small: only its part is computed in one.
Nanoseconds ClockAlignment::host_time(Nanoseconds gpu) const {
  const Nanoseconds passed = gpu - start_.gpu;
  return host_ + passed + std::llround(static_cast<double>(passed) * drift_);
}

Nanoseconds ClockAlignment::error(Nanoseconds gpu) const {
  const double t = static_cast<double>(gpu - start_.gpu) / static_cast<double>(stop_.gpu - start_.gpu);
  const double bound = std::abs(1 - t) * half_pair_width(start_) + std::abs(t) * half_pair_width(stop_);
  return static_cast<Nanoseconds>(std::ceil(bound)) + 1;  // rounding of host_time
}

std::string ClockAlignment::why_doubtful() const {
  const double unsure =
      (half_pair_width(start_) + half_pair_width(stop_)) / static_cast<double>(stop_.gpu - start_.gpu);
  if (std::abs(drift_) <= most_clock_drift + unsure) return "";
  return fmt::format("CUPTI's clock was set while it was used: the host's clock ran {:.3g} % {}",
                     100 * std::abs(drift_), drift_ > 0 ? "faster" : "slower");
}

}  // namespace pipesim
