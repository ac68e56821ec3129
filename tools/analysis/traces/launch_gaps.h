#pragma once

#include <cstdint>
#include <vector>

#include "tools/analysis/traces/quantiles.h"
#include "tools/analysis/traces/trace_steps.h"

namespace pipesim {

/// Where the time of a step on a device goes.
struct StepTimes {
  Seconds length;
  Seconds busy;               ///< something runs
  Seconds late_launch;        ///< idle, and what comes next was not launched yet, or began at once then
  Seconds dependencies;       ///< idle, and what comes next had been launched: it waited for something else
  Seconds communication;      ///< collectives run
  Seconds exposed;            ///< collectives run, and no other kernel
  std::int64_t launches = 0;  ///< calls of the host that gave the device work
};

/// Work that begins at most this long after the call that launched it has waited for nothing but the way to
/// the device.
inline constexpr Nanoseconds launch_latency = 10'000;

StepTimes step_times(const MeasuredTrace& trace, const TracedStep& step);

/// Returns the seconds from one launch of a thread to its next, for each launch that the idle device waited
/// for: what the host takes to launch work, as long as nothing holds it up.
std::vector<double> host_times(const MeasuredTrace& trace, const TracedDevice& device);

/// Calls that gave the device work.
std::int64_t launches_of(const MeasuredTrace& trace, const std::vector<std::size_t>& activities);

}  // namespace pipesim
