#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/traces/quantiles.h"
#include "tools/analysis/traces/trace_steps.h"
#include "tools/analysis/traces/work_class.h"

namespace pipesim {

/// Calls of one operator with the same inputs, or kernels of one name that no operator launched.
struct OperatorTime {
  std::string name;    ///< "aten::mm", or the kernel's
  std::string inputs;  ///< inputs_text(); "": not recorded
  WorkClass kind = WorkClass::Other;
  TracedWork work;  ///< of one call
  std::int64_t calls = 0;
  Quantiles call;  ///< seconds on the device of one call: the sum of its kernels
  Seconds total;   ///< of all calls
};

/// Returns the times of one device, the longest in total first. Collectives are left out: see
/// collective_times.h.
std::vector<OperatorTime> operator_times(const MeasuredTrace& trace, const TracedDevice& device);

/// Returns the time on the device by class of work, in a step.
std::vector<Seconds> class_times(const MeasuredTrace& trace, const TracedStep& step);

}  // namespace pipesim
