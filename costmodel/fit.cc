#include "costmodel/fit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {

namespace {

struct WeightedValue {
  double value = 0, weight = 1;
};

// The least value with half of the weight at or below it.
double weighted_median(std::vector<WeightedValue> values) {
  std::sort(values.begin(), values.end(),
            [](const WeightedValue& a, const WeightedValue& b) { return a.value < b.value; });
  double whole = 0, sum = 0;
  for (const WeightedValue& v : values) whole += v.weight;
  for (const WeightedValue& v : values) {
    sum += v.weight;
    if (sum >= whole / 2) return v.value;
  }
  return values.back().value;
}

using TimePair = std::pair<double, double>;  // predicted, measured

double median_ratio(const std::vector<TimePair>& tasks) {
  std::vector<WeightedValue> ratios;
  for (const auto& [predicted, measured] : tasks) ratios.push_back({measured / predicted});
  return weighted_median(std::move(ratios));
}

// All pairs of up to 400 tasks, taken evenly from the sorted ones: 80,000 slopes say enough.
double median_slope(const std::vector<TimePair>& sorted) {
  constexpr std::size_t most = 400;
  const std::size_t n = std::min(most, sorted.size());
  const auto task = [&](std::size_t i) { return sorted[i * sorted.size() / n]; };
  std::vector<WeightedValue> slopes;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double step = task(j).first - task(i).first;
      if (step > 0) slopes.push_back({(task(j).second - task(i).second) / step, step});
    }
  }
  return weighted_median(std::move(slopes));
}

Correction fitted(std::vector<TimePair> tasks, std::int64_t runs) {
  constexpr std::size_t least_tasks = 8;
  constexpr double least_span = 2;
  std::sort(tasks.begin(), tasks.end());
  Correction correction;
  correction.tasks = static_cast<std::int64_t>(tasks.size());
  correction.runs = runs;
  correction.factor = median_ratio(tasks);
  if (tasks.size() < least_tasks || tasks.back().first < least_span * tasks.front().first) return correction;
  const double slope = median_slope(tasks);
  std::vector<WeightedValue> rests;
  for (const auto& [predicted, measured] : tasks)
    rests.push_back({measured - slope * predicted, 1 / predicted});
  const double overhead = weighted_median(std::move(rests));
  if (slope <= 0 || overhead < 0) return correction;
  correction.factor = slope;
  correction.overhead = overhead;
  return correction;
}

}  // namespace

std::string correction_class(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return "forward";
    case Pass::BackwardInput:
      return "backward-input";
    case Pass::BackwardWeight:
      return "backward-weight";
    case Pass::Update:
      return "update";
  }
  throw InternalError("pass of unknown kind");
}

std::string correction_class(Collective kind) { return std::string(name_of(kind)); }

std::map<std::string, Correction> fit_corrections(std::span<const ExecutedTask> tasks, std::int64_t runs) {
  std::map<std::string, std::vector<TimePair>> classes;
  for (const ExecutedTask& task : tasks) {
    if (task.predicted > 0 && task.measured > 0)
      classes[task.correction_class].emplace_back(task.predicted, task.measured);
  }
  std::map<std::string, Correction> corrections;
  for (auto& [name, pairs] : classes) corrections.emplace(name, fitted(std::move(pairs), runs));
  return corrections;
}

}  // namespace pipesim
