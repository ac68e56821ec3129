#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/traces/trace_steps.h"

namespace pipesim {

/// Kernels of one name, launched by one operator with the same inputs, beside communication and without.
struct OverlapSlowdown {
  std::string kernel, name, inputs;    ///< of the kernel, and its operator; "": none
  std::int64_t alone = 0, beside = 0;  ///< how many
  Seconds time_alone, time_beside;     ///< medians
  [[nodiscard]] double times() const { return time_beside / time_alone; }
};

/// Returns the kernels of one device, those that took most time beside communication first. A kernel is
/// beside communication when collectives run for at least half of its time, and alone when none runs
/// meanwhile; other kernels are left out.
std::vector<OverlapSlowdown> overlap_slowdowns(const MeasuredTrace& trace, const TracedDevice& device);

/// Returns the time of all kernels beside communication, divided by what they would have taken alone; 1 when
/// there are none.
double mean_slowdown(const std::vector<OverlapSlowdown>& kernels);

}  // namespace pipesim
