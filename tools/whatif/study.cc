#include "tools/whatif/study.h"

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

std::optional<double> scaling_efficiency(const Study& study, std::size_t point) {
  const auto by_device = [](const PointResult& p) {
    return p.samples_per_s / static_cast<double>(p.devices);
  };
  const auto has_plan = [](const std::optional<PointResult>& p) { return p && p->error.empty(); };
  if (!has_plan(study.points[point])) return std::nullopt;
  const auto first = std::ranges::find_if(study.points, has_plan);
  return by_device(*study.points[point]) / by_device(**first);
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
