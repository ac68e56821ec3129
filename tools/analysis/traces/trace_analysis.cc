#include "tools/analysis/traces/trace_analysis.h"

#include <algorithm>
#include <numeric>

namespace pipesim {

std::size_t DeviceAnalysis::typical_step() const {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t s) { return steps[s].length.value; });
  return order[(order.size() - 1) / 2];
}

TraceAnalysis analyze(std::span<const MeasuredTrace> traces) {
  TraceAnalysis analysis;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    for (TracedDevice& device : traced_devices(traces[t])) {
      DeviceAnalysis of;
      of.trace = t;
      for (const TracedStep& step : device.steps) of.steps.push_back(step_times(traces[t], step));
      of.operators = operator_times(traces[t], device);
      of.host = quantiles_of(host_times(traces[t], device));
      of.launches = launches_of(traces[t], device.activities);
      of.slowdowns = overlap_slowdowns(traces[t], device);
      of.device = std::move(device);
      analysis.devices.push_back(std::move(of));
    }
  }
  analysis.groups = collective_times(traces);
  return analysis;
}

std::vector<KindOfDevices> kinds_of(const TraceAnalysis& analysis) {
  std::vector<KindOfDevices> kinds;
  for (const DeviceAnalysis& of : analysis.devices) {
    auto known = std::ranges::find(kinds, of.device.name, &KindOfDevices::name);
    if (known == kinds.end()) known = kinds.insert(kinds.end(), {of.device.name, 0, &of});
    ++known->devices;
  }
  return kinds;
}

}  // namespace pipesim
