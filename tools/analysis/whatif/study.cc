#include "tools/analysis/whatif/study.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/base/errors.h"

namespace pipesim {

std::string_view name_of(PointPlans plans) {
  return plans == PointPlans::Same ? "same" : plans == PointPlans::Recipes ? "recipes" : "search";
}

std::size_t Study::done() const {
  return static_cast<std::size_t>(std::ranges::count_if(points, [](const auto& p) { return p.has_value(); }));
}

std::optional<double> cost_of_work(const PointResult& point) {
  if (!point.price_per_hour || !point.error.empty()) return std::nullopt;
  constexpr double kHour = 3600, kMillion = 1e6, kBillion = 1e9;
  const double a_second = *point.price_per_hour / kHour;
  return point.tokens_per_s ? kBillion / *point.tokens_per_s * a_second
                            : kMillion / point.samples_per_s * a_second;
}

namespace {

bool has_plan(const std::optional<PointResult>& p) { return p && p->error.empty(); }

// By axis: how far apart the numbers of neighbours on it are.
std::vector<std::size_t> strides_of(const std::vector<StudyAxis>& axes) {
  std::vector<std::size_t> strides(axes.size(), 1);
  for (std::size_t a = axes.size(); a-- > 1;) strides[a - 1] = strides[a] * axes[a].values.size();
  return strides;
}

bool changes_devices(const Study& study, std::size_t stride, std::size_t values) {
  for (std::size_t p = 0; p + stride < study.points.size(); ++p) {
    if (p / stride % values + 1 == values) continue;
    const auto &here = study.points[p], &next = study.points[p + stride];
    if (has_plan(here) && has_plan(next) && here->devices != next->devices) return true;
  }
  return false;
}

}  // namespace

std::vector<std::optional<double>> scaling_efficiencies(const Study& study) {
  std::vector<std::optional<double>> result(study.points.size());
  const std::vector<std::size_t> strides = strides_of(study.axes);
  std::vector<std::size_t> of_devices;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (changes_devices(study, strides[a], study.axes[a].values.size())) of_devices.push_back(a);
  }
  if (of_devices.empty()) return result;
  std::vector<double> first(study.points.size(), 0);  // by the number of the first point on these axes
  for (std::size_t p = 0; p < study.points.size(); ++p) {
    if (!has_plan(study.points[p])) continue;
    std::size_t begin = p;
    for (const std::size_t a : of_devices) begin -= p / strides[a] % study.axes[a].values.size() * strides[a];
    const double rate = study.points[p]->samples_per_s / static_cast<double>(study.points[p]->devices);
    if (first[begin] == 0) first[begin] = rate;
    if (first[begin] > 0) result[p] = rate / first[begin];
  }
  return result;
}

std::size_t longest_axis(const std::vector<StudyAxis>& axes) {
  const auto longest = std::ranges::max_element(axes, {}, [](const StudyAxis& a) { return a.values.size(); });
  return longest == axes.end() ? 0 : static_cast<std::size_t>(longest - axes.begin());
}

namespace {

TrainingAtPoint training_at(const Study& study, std::size_t point, double work) {
  constexpr double kHour = 3600;
  const PointResult& p = *study.points[point];
  const double seconds = work / p.tokens_per_s.value_or(p.samples_per_s);
  std::optional<double> price;
  if (p.price_per_hour) price = *p.price_per_hour * seconds / kHour;
  return {point, seconds, price};
}

std::vector<TrainingAtPoint> trainings(const Study& study, double work) {
  std::vector<TrainingAtPoint> all;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (study.points[i] && study.points[i]->error.empty() && study.points[i]->fits)
      all.push_back(training_at(study, i, work));
  }
  return all;
}

}  // namespace

std::optional<TrainingAtPoint> cheapest_within(const Study& study, double work, double seconds) {
  std::vector<TrainingAtPoint> all = trainings(study, work);
  std::erase_if(all, [&](const TrainingAtPoint& t) { return t.seconds > seconds; });
  if (all.empty()) return std::nullopt;
  const auto rank = [&](const TrainingAtPoint& t) {
    return std::tuple(t.price.value_or(std::numeric_limits<double>::infinity()),
                      study.points[t.point]->devices, t.seconds);
  };
  return *std::ranges::min_element(all, {}, rank);
}

std::optional<TrainingAtPoint> fastest_for(const Study& study, double work, double price) {
  std::vector<TrainingAtPoint> all = trainings(study, work);
  if (std::ranges::none_of(all, [](const TrainingAtPoint& t) { return t.price.has_value(); }))
    throw InputError("--target-cost: the topology has no price; --vary device.price=N gives one");
  std::erase_if(all, [&](const TrainingAtPoint& t) { return !t.price || *t.price > price; });
  if (all.empty()) return std::nullopt;
  return *std::ranges::min_element(all, {}, &TrainingAtPoint::seconds);
}

}  // namespace pipesim
