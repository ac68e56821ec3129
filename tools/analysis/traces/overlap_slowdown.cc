#include "tools/analysis/traces/overlap_slowdown.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tools/analysis/traces/quantiles.h"
#include "tools/analysis/traces/time_spans.h"
#include "tools/analysis/traces/work_class.h"

namespace pipesim {
namespace {

struct AloneAndBeside {
  std::vector<double> alone, beside;
};

Seconds time_beside_all(const OverlapSlowdown& kernel) {
  return kernel.time_beside * static_cast<double>(kernel.beside);
}

}  // namespace

std::vector<OverlapSlowdown> overlap_slowdowns(const MeasuredTrace& trace, const TracedDevice& device) {
  std::vector<TimeSpan> spans;
  std::vector<const DeviceActivity*> kernels;
  for (const std::size_t a : device.activities) {
    const DeviceActivity& activity = trace.activities[a];
    if (class_of(trace, activity) == WorkClass::Collectives) {
      spans.push_back({activity.start, activity.end()});
    } else if (activity.work == DeviceWork::Kernel && activity.duration > 0) {
      kernels.push_back(&activity);
    }
  }
  const TimeSpans communication = united(spans);
  // By kernel, operator and inputs.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, AloneAndBeside> times;
  for (const DeviceActivity* kernel : kernels) {
    const TracedOperator* op = trace.operator_of(*kernel);
    AloneAndBeside& of = times[{kernel->name, op ? op->name : -1, op ? op->call : -1}];
    const Nanoseconds both = covered({kernel->start, kernel->end()}, communication);
    if (both == 0) of.alone.push_back(to_seconds(kernel->duration).value);
    if (2 * both >= kernel->duration) of.beside.push_back(to_seconds(kernel->duration).value);
  }
  std::vector<OverlapSlowdown> found;
  for (const auto& [key, of] : times) {
    if (of.alone.empty() || of.beside.empty()) continue;
    const auto [kernel, op, call] = key;
    found.push_back({trace.name(kernel), op < 0 ? "" : trace.name(op),
                     call < 0 ? "" : inputs_text(trace.calls[static_cast<std::size_t>(call)]),
                     static_cast<std::int64_t>(of.alone.size()), static_cast<std::int64_t>(of.beside.size()),
                     Seconds(quantiles_of(of.alone).median), Seconds(quantiles_of(of.beside).median)});
  }
  std::ranges::stable_sort(found, std::greater<>(), time_beside_all);
  return found;
}

double mean_slowdown(const std::vector<OverlapSlowdown>& kernels) {
  Seconds beside, alone;
  for (const OverlapSlowdown& kernel : kernels) {
    beside += time_beside_all(kernel);
    alone += kernel.time_alone * static_cast<double>(kernel.beside);
  }
  return alone.value > 0 ? beside / alone : 1;
}

}  // namespace pipesim
