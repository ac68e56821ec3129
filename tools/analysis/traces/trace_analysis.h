#pragma once

#include <span>
#include <vector>

#include "tools/analysis/traces/collective_times.h"
#include "tools/analysis/traces/launch_gaps.h"
#include "tools/analysis/traces/operator_times.h"
#include "tools/analysis/traces/overlap_slowdown.h"

namespace pipesim {

/// What the trace of a device tells.
struct DeviceAnalysis {
  std::size_t trace = 0;  ///< position among the traces
  TracedDevice device;
  std::vector<StepTimes> steps;  ///< as device.steps
  std::vector<OperatorTime> operators;
  Quantiles host;             ///< seconds, see host_times()
  std::int64_t launches = 0;  ///< of the whole trace
  std::vector<OverlapSlowdown> slowdowns;
  /// The step whose length is the median; of an even number, the shorter one.
  [[nodiscard]] std::size_t typical_step() const;
};

struct TraceAnalysis {
  std::vector<DeviceAnalysis> devices;  ///< at least one
  std::vector<GroupTimes> groups;
};

/// `traces`: one, or one of each of several ranks.
TraceAnalysis analyze(std::span<const MeasuredTrace> traces);

/// Devices of one kind among those of an analysis.
struct KindOfDevices {
  std::string name;  ///< "": not recorded
  std::size_t devices = 0;
  const DeviceAnalysis* first = nullptr;
};
/// The kinds by their first device.
std::vector<KindOfDevices> kinds_of(const TraceAnalysis& analysis);

}  // namespace pipesim
