#include "tools/analysis/traces/trace_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace pipesim {
namespace {

constexpr std::size_t kMostPeriods = 10'000;

std::vector<const TracedRange*> ranges_named(const MeasuredTrace& trace, std::string_view start) {
  std::vector<const TracedRange*> found;
  for (const TracedRange& range : trace.ranges) {
    if (trace.name(range.name).starts_with(start)) found.push_back(&range);
  }
  std::ranges::stable_sort(found, {}, [](const TracedRange* range) { return range->start; });
  return found;
}

// Activities by when the host launched them, or else by when they began.
class LaunchOrder {
 public:
  LaunchOrder(const MeasuredTrace& trace, const TracedDevice& device) {
    for (const std::size_t a : device.activities) {
      const DeviceActivity& activity = trace.activities[a];
      order_.emplace_back(activity.launch < 0
                              ? activity.start
                              : trace.launches[static_cast<std::size_t>(activity.launch)].start,
                          a);
    }
    std::ranges::stable_sort(order_, {}, &std::pair<Nanoseconds, std::size_t>::first);
  }
  [[nodiscard]] std::size_t activity(std::size_t place) const { return order_[place].second; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  // Those from `begin` on and before `end`, by start.
  [[nodiscard]] std::vector<std::size_t> between(Nanoseconds begin, Nanoseconds end) const {
    const auto at = [&](Nanoseconds time) {
      return std::ranges::lower_bound(order_, time, {}, &std::pair<Nanoseconds, std::size_t>::first);
    };
    std::vector<std::size_t> found;
    for (auto one = at(begin); one != order_.end() && one->first < end; ++one) found.push_back(one->second);
    std::ranges::sort(found);
    return found;
  }

 private:
  std::vector<std::pair<Nanoseconds, std::size_t>> order_;
};

std::vector<TracedStep> steps_of_profiler(const MeasuredTrace& trace, const TracedDevice& device) {
  const LaunchOrder order(trace, device);
  std::vector<TracedStep> steps;
  for (const TracedRange* range : ranges_named(trace, "ProfilerStep#")) {
    TracedStep step{trace.name(range->name), order.between(range->start, range->end), 0, 0, -1};
    if (!step.activities.empty()) steps.push_back(std::move(step));
  }
  return steps;
}

// The length of the shortest part that repeats all the way; 0: none. By the failure function of Knuth, Morris
// and Pratt.
std::size_t period_of(const std::vector<std::int32_t>& names) {
  std::vector<std::size_t> border(names.size(), 0);
  for (std::size_t i = 1, matched = 0; i < names.size(); ++i) {
    while (matched > 0 && names[i] != names[matched]) matched = border[matched - 1];
    if (names[i] == names[matched]) ++matched;
    border[i] = matched;
  }
  if (names.empty()) return 0;
  const std::size_t period = names.size() - border.back();
  return period < names.size() && names.size() % period == 0 ? period : 0;
}

std::vector<TracedStep> steps_of_repeats(const MeasuredTrace& trace, const TracedDevice& device) {
  // In the order of launches: that of streams beside each other differs by step.
  const LaunchOrder order(trace, device);
  std::vector<std::int32_t> names;
  for (std::size_t place = 0; place < order.size(); ++place)
    names.push_back(trace.activities[order.activity(place)].name);
  const std::size_t period = period_of(names);
  constexpr std::size_t kShortest = 8;  // fewer kernels are no training step
  if (period < kShortest || names.size() / period > kMostPeriods) return {};
  std::vector<TracedStep> steps;
  for (std::size_t first = 0; first < order.size(); first += period) {
    TracedStep step{fmt::format("step {}", steps.size() + 1), {}, 0, 0, -1};
    for (std::size_t place = first; place < first + period; ++place)
      step.activities.push_back(order.activity(place));
    std::ranges::sort(step.activities);
    steps.push_back(std::move(step));
  }
  return steps;
}

// Between the ends of two optimizer steps. What comes before the first and behind the last may be half a
// step.
std::vector<TracedStep> steps_of_optimizer(const MeasuredTrace& trace, const TracedDevice& device) {
  std::vector<Nanoseconds> ends;  // on the host
  for (const TracedRange* range : ranges_named(trace, "Optimizer.step#")) ends.push_back(range->end);
  const LaunchOrder order(trace, device);
  std::vector<TracedStep> steps;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    TracedStep step{fmt::format("step {}", i + 1), order.between(ends[i], ends[i + 1]), 0, 0, -1};
    if (!step.activities.empty()) steps.push_back(std::move(step));
  }
  return steps;
}

void set_times(const MeasuredTrace& trace, std::vector<TracedStep>& steps) {
  for (TracedStep& step : steps) {
    step.begin = trace.activities[step.activities.front()].start;
    for (const std::size_t a : step.activities) step.end = std::max(step.end, trace.activities[a].end());
  }
  for (std::size_t s = 0; s + 1 < steps.size(); ++s) {
    steps[s].end = std::max(steps[s].begin, steps[s + 1].begin);
    steps[s].following = static_cast<std::int64_t>(steps[s + 1].activities.front());
  }
}

void find_steps(const MeasuredTrace& trace, TracedDevice& device) {
  using Finder = std::vector<TracedStep> (*)(const MeasuredTrace&, const TracedDevice&);
  constexpr std::pair<StepSource, Finder> kFinders[] = {{StepSource::ProfilerSteps, steps_of_profiler},
                                                        {StepSource::Repeats, steps_of_repeats},
                                                        {StepSource::Optimizer, steps_of_optimizer}};
  for (const auto& [source, find] : kFinders) {
    device.source = source;
    device.steps = find(trace, device);
    if (!device.steps.empty()) break;
  }
  if (device.steps.empty()) {
    device.source = StepSource::Whole;
    device.steps = {{"whole trace", device.activities, 0, 0, -1}};
  }
  set_times(trace, device.steps);
}

}  // namespace

std::vector<TracedDevice> traced_devices(const MeasuredTrace& trace) {
  std::map<std::int32_t, TracedDevice> devices;
  for (std::size_t a = 0; a < trace.activities.size(); ++a) {
    const std::int32_t number = trace.activities[a].device;
    TracedDevice& device = devices[number];
    device.number = number;
    if (static_cast<std::size_t>(number) < trace.device_names.size())
      device.name = trace.device_names[static_cast<std::size_t>(number)];
    device.activities.push_back(a);
  }
  std::vector<TracedDevice> found;
  for (auto& [number, device] : devices) {
    find_steps(trace, device);
    found.push_back(std::move(device));
  }
  return found;
}

}  // namespace pipesim
