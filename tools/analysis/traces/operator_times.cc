#include "tools/analysis/traces/operator_times.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pipesim {
namespace {

struct OperatorCalls {
  const TracedOperator* op = nullptr;
  const DeviceActivity* first = nullptr;
  std::map<std::int64_t, Nanoseconds> by_call;
};

}  // namespace

std::vector<OperatorTime> operator_times(const MeasuredTrace& trace, const TracedDevice& device) {
  // By class, whether there is an operator, name, inputs.
  std::map<std::tuple<WorkClass, bool, std::int32_t, std::int32_t>, OperatorCalls> all;
  for (const std::size_t a : device.activities) {
    const DeviceActivity& activity = trace.activities[a];
    const WorkClass kind = class_of(trace, activity);
    if (kind == WorkClass::Collectives) continue;
    const bool own = activity.work == DeviceWork::Kernel;
    const TracedOperator* op = own ? trace.operator_of(activity) : nullptr;
    OperatorCalls& calls = all[{kind, op != nullptr, op ? op->name : activity.name, op ? op->call : -1}];
    if (!calls.first) calls.first = &activity, calls.op = op;
    // Kernels of one call are one time; without an operator each is its own.
    const std::int64_t call = op ? op - trace.operators.data() : static_cast<std::int64_t>(a);
    calls.by_call[call] += activity.duration;
  }
  std::vector<OperatorTime> times;
  for (const auto& [key, calls] : all) {
    OperatorTime time;
    time.kind = std::get<0>(key);
    time.name = trace.name(std::get<2>(key));
    if (calls.op && calls.op->call >= 0) {
      const TracedCall& call = trace.calls[static_cast<std::size_t>(calls.op->call)];
      time.inputs = inputs_text(call);
      time.work = work_of(time.name, call);
    }
    std::vector<double> seconds;
    for (const auto& [number, duration] : calls.by_call) {
      seconds.push_back(to_seconds(duration).value);
      time.total += to_seconds(duration);
    }
    time.calls = static_cast<std::int64_t>(seconds.size());
    time.call = quantiles_of(std::move(seconds));
    times.push_back(std::move(time));
  }
  std::ranges::stable_sort(times, std::greater<>(), [](const OperatorTime& t) { return t.total.value; });
  return times;
}

std::vector<Seconds> class_times(const MeasuredTrace& trace, const TracedStep& step) {
  std::vector<Seconds> times(num_work_classes);
  for (const std::size_t a : step.activities) {
    const DeviceActivity& activity = trace.activities[a];
    times[static_cast<std::size_t>(class_of(trace, activity))] += to_seconds(activity.duration);
  }
  return times;
}

}  // namespace pipesim
