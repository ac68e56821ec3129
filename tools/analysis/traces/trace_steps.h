#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/analysis/traces/measured_trace.h"

namespace pipesim {

/// A training step on one device.
struct TracedStep {
  std::string name;                     ///< "ProfilerStep#5", or "step 1"
  std::vector<std::size_t> activities;  ///< positions in MeasuredTrace::activities, by start
  /// From the start of its first activity to that of the next step's; the last step ends with its last
  /// activity.
  Nanoseconds begin = 0, end = 0;
  std::int64_t following = -1;  ///< the first activity of the next step; −1: there is none
  [[nodiscard]] Nanoseconds length() const { return end - begin; }
};

/// How steps were told apart.
enum class StepSource : std::uint8_t {
  ProfilerSteps,  ///< ranges "ProfilerStep#N": a step is what was launched in one
  Repeats,        ///< the device's kernels repeat: the shortest period of their names
  Optimizer,      ///< ranges "Optimizer.step#…": a step ends with what was launched in one
  Whole           ///< nothing tells: the trace is one step
};

struct TracedDevice {
  std::int32_t number = 0;
  std::string name;                     ///< of the kind; "": not recorded
  std::vector<std::size_t> activities;  ///< all, by start
  StepSource source = StepSource::Whole;
  std::vector<TracedStep> steps;  ///< at least one; activities may lie outside of all
};

/// The devices of a trace that ran something, by number.
std::vector<TracedDevice> traced_devices(const MeasuredTrace& trace);

}  // namespace pipesim
