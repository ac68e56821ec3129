#include "executor/measuring/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace pipesim {
namespace {

// Below these a measurement is worth little: two steps in three preempted, or equal work that differs by a
// tenth.
constexpr double most_preempted = 2.0 / 3, most_spread = 0.1;
constexpr std::size_t fewest_clean = 3;

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

using Names = std::function<std::string(const TaskLabel&)>;

// Sums by name, predicted and, for each step, measured. An empty name leaves a task out.
std::vector<TimeDifference> differences_by_name(std::span<const StepRecord* const> steps,
                                                const TaskGraph& tasks, const Names& name) {
  std::map<std::string, TimeDifference> rows;
  std::map<std::string, std::vector<double>> measured;
  std::vector<std::string> names(tasks.dag.num_tasks());
  for (std::size_t t = 0; t < names.size(); ++t) {
    names[t] = name(tasks.labels[t]);
    if (names[t].empty()) continue;
    TimeDifference& row = rows[names[t]];
    row.name = names[t];
    ++row.tasks;
    row.predicted += to_seconds(tasks.dag.duration(TaskId(t))).value;
  }
  for (const StepRecord* step : steps) {
    const Timeline timeline = step->timeline(tasks.dag.num_tasks());
    std::map<std::string, double> sums;
    for (std::size_t t = 0; t < names.size(); ++t) {
      if (!names[t].empty()) sums[names[t]] += to_seconds(timeline.end[t] - timeline.start[t]).value;
    }
    for (const auto& [row, sum] : sums) measured[row].push_back(sum);
  }
  std::vector<TimeDifference> result;
  for (auto& [key, row] : rows) {
    row.measured = median_of(measured[key]);
    result.push_back(std::move(row));
  }
  std::stable_sort(result.begin(), result.end(), [](const TimeDifference& a, const TimeDifference& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return result;
}

}  // namespace

std::vector<const StepRecord*> clean_steps(std::span<const StepRecord> steps) {
  std::vector<const StepRecord*> clean, all;
  for (const StepRecord& s : steps) {
    all.push_back(&s);
    if (s.involuntary_switches == 0) clean.push_back(&s);
  }
  return clean.size() >= fewest_clean ? clean : all;
}

StepStatistics statistics_of(std::span<const StepRecord> steps) {
  StepStatistics s;
  s.steps = steps.size();
  for (const StepRecord& step : steps) s.preempted += step.involuntary_switches > 0 ? 1 : 0;
  std::vector<double> times;
  for (const StepRecord* step : clean_steps(steps)) times.push_back(static_cast<double>(step->makespan));
  if (times.empty()) return s;
  std::sort(times.begin(), times.end());
  const double median = quantile(times, 0.5);
  s.median = static_cast<Nanoseconds>(median);
  // The number of times below the median is binomial; 1.96 of its standard deviations on either side.
  const double n = static_cast<double>(times.size()), half = 0.98 * std::sqrt(n);
  s.low = static_cast<Nanoseconds>(times[static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - half)))]);
  s.high =
      static_cast<Nanoseconds>(times[static_cast<std::size_t>(std::min(n - 1, std::ceil(n / 2 + half)))]);
  s.fast = static_cast<Nanoseconds>(quantile(times, 0.05));
  s.slow = static_cast<Nanoseconds>(quantile(times, 0.95));
  s.spread = median > 0 ? (quantile(times, 0.75) - quantile(times, 0.25)) / median : 0;
  return s;
}

std::string why_not_quiet(const StepStatistics& s, const HostNoise& noise) {
  if (s.steps == 0) return "";
  const double share = static_cast<double>(s.preempted) / static_cast<double>(s.steps);
  if (share > most_preempted)
    return fmt::format("host not quiet: {} of {} iterations were interrupted by the system", s.preempted,
                       s.steps);
  if (noise.spread > most_spread)
    return fmt::format("host not quiet: equal work takes times that differ by {:.0f} %", 100 * noise.spread);
  if (s.spread > most_spread)
    return fmt::format("host not quiet: the middle half of the iterations differs by {:.0f} %",
                       100 * s.spread);
  return "";
}

std::vector<TimeDifference> operator_differences(std::span<const StepRecord* const> steps,
                                                 const TaskGraph& tasks, const OperatorGraph& graph) {
  return differences_by_name(steps, tasks, [&](const TaskLabel& label) {
    if (is_communication(label.kind) || label.kind == TaskKind::Barrier) return std::string();
    return fmt::format("{} {}", graph.op(label.op).name, name_of(label.kind));
  });
}

std::vector<TimeDifference> link_differences(std::span<const StepRecord* const> steps, const TaskGraph& tasks,
                                             const Topology& topology) {
  return differences_by_name(steps, tasks, [&](const TaskLabel& label) -> std::string {
    if (!is_communication(label.kind)) return "";
    const std::string& first = topology.device(label.device).name;
    if (label.collective == Collective::Send) return first + " -> " + topology.device(label.peer).name;
    return fmt::format("{} over {} devices from {}", name_of(label.collective), label.group_size, first);
  });
}

double overhead_per_task(const StepRecord& step) {
  double sum = 0;
  for (std::size_t i = 0; i < step.times.size(); ++i) {
    const InstructionTime& t = step.times[i];
    const bool follows = i > 0 && step.times[i - 1].list == t.list;
    const Nanoseconds could = std::max(t.ready, follows ? step.times[i - 1].end : 0);
    sum += to_seconds(t.start - could).value;
  }
  return step.times.empty() ? 0 : sum / static_cast<double>(step.times.size());
}

}  // namespace pipesim
