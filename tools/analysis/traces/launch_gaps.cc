#include "tools/analysis/traces/launch_gaps.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tools/analysis/traces/time_spans.h"
#include "tools/analysis/traces/work_class.h"

namespace pipesim {
namespace {

const TracedLaunch* launch_of(const MeasuredTrace& trace, const DeviceActivity& activity) {
  return activity.launch < 0 ? nullptr : &trace.launches[static_cast<std::size_t>(activity.launch)];
}

// Calls visit(activity, end of what ran before it) for each activity before which nothing ran.
template <class Visit>
void for_each_gap(const MeasuredTrace& trace, const std::vector<std::size_t>& activities, Visit visit) {
  Nanoseconds busy_until = -1;
  for (const std::size_t a : activities) {
    const DeviceActivity& activity = trace.activities[a];
    if (busy_until >= 0 && activity.start > busy_until) visit(activity, busy_until);
    busy_until = std::max(busy_until, activity.end());
  }
}

}  // namespace

StepTimes step_times(const MeasuredTrace& trace, const TracedStep& step) {
  StepTimes times;
  times.length = to_seconds(step.length());
  std::vector<TimeSpan> all, collectives, others;
  for (const std::size_t a : step.activities) {
    const DeviceActivity& activity = trace.activities[a];
    const TimeSpan span{activity.start, activity.end()};
    all.push_back(span);
    (class_of(trace, activity) == WorkClass::Collectives ? collectives : others).push_back(span);
  }
  const TimeSpan window{step.begin, step.end};
  const TimeSpans communicates = within(united(collectives), window);
  times.busy = to_seconds(total(within(united(all), window)));
  times.communication = to_seconds(total(communicates));
  times.exposed = to_seconds(total(without(communicates, united(others))));
  Nanoseconds late = 0;
  std::vector<std::size_t> with_next = step.activities;
  if (step.following >= 0) with_next.push_back(static_cast<std::size_t>(step.following));
  for_each_gap(trace, with_next, [&](const DeviceActivity& next, Nanoseconds since) {
    const TracedLaunch* launch = launch_of(trace, next);
    if (!launch) return;
    const bool at_once = next.start - launch->end <= launch_latency;
    const Nanoseconds launched = at_once ? next.start : std::max(since, launch->end);
    late += std::max<Nanoseconds>(0, launched - since);
  });
  const Seconds idle = times.length - times.busy;
  times.late_launch = std::min(idle, to_seconds(late));
  times.dependencies = idle - times.late_launch;
  times.launches = launches_of(trace, step.activities);
  return times;
}

std::vector<double> host_times(const MeasuredTrace& trace, const TracedDevice& device) {
  // The launch before each among those that gave some device work. Where it is another thread's, the threads
  // waited for each other.
  std::set<std::int32_t> launches;
  for (const DeviceActivity& activity : trace.activities) {
    if (activity.launch >= 0) launches.insert(activity.launch);
  }
  std::unordered_map<std::int32_t, const TracedLaunch*> before;
  const TracedLaunch* last = nullptr;
  for (const std::int32_t l : launches) {  // by start
    const TracedLaunch& launch = trace.launches[static_cast<std::size_t>(l)];
    if (last && last->thread == launch.thread) before.emplace(l, last);
    last = &launch;
  }
  std::vector<double> times;
  for_each_gap(trace, device.activities, [&](const DeviceActivity& next, Nanoseconds since) {
    const TracedLaunch* launch = launch_of(trace, next);
    if (!launch || launch->end < since || next.start - launch->end > launch_latency) return;
    const auto previous = before.find(next.launch);
    if (previous == before.end()) return;
    times.push_back(to_seconds(launch->end - previous->second->end).value);
  });
  return times;
}

std::int64_t launches_of(const MeasuredTrace& trace, const std::vector<std::size_t>& activities) {
  std::set<std::int32_t> launches;
  std::int64_t unknown = 0;
  for (const std::size_t a : activities) {
    const std::int32_t launch = trace.activities[a].launch;
    if (launch >= 0) launches.insert(launch);
    unknown += launch < 0 ? 1 : 0;
  }
  return static_cast<std::int64_t>(launches.size()) + unknown;
}

}  // namespace pipesim
