#include "tools/analysis/traces/comparing/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

std::string name_of_product(const ProductKey& key) {
  return fmt::format("products {}{}x{} over {}", key.batch > 1 ? fmt::format("{} of ", key.batch) : "",
                     key.rows, key.columns, key.inner);
}

TimeAndCalls operator-(const TimeAndCalls& a, const TimeAndCalls& b) {
  return {a.calls == b.calls ? Seconds(0) : a.time - b.time, a.calls - b.calls};
}

// Products whose sizes both have, one by one; the others of the class together.
void add_products(const StepWork& predicted, const StepWork& measured, StepComparison& comparison) {
  constexpr auto kClass = static_cast<std::size_t>(WorkClass::Products);
  TimeAndCalls rest_predicted = predicted.classes[kClass], rest_measured = measured.classes[kClass];
  bool common = false;
  for (const auto& [key, said] : predicted.products) {
    const auto same = measured.products.find(key);
    if (same == measured.products.end()) continue;
    common = true;
    comparison.work.push_back({name_of_product(key), said, same->second});
    rest_predicted = rest_predicted - said;
    rest_measured = rest_measured - same->second;
  }
  if (!common && !predicted.products.empty() && !measured.products.empty())
    throw InputError(
        fmt::format("the trace has no product of the model, whose first is {}; that of the trace is {}",
                    name_of_product(predicted.products.begin()->first),
                    name_of_product(measured.products.begin()->first)));
  comparison.work.push_back({common ? "products of other sizes" : "products", rest_predicted, rest_measured});
}

}  // namespace

StepComparison compare_steps(const StepWork& predicted, const StepWork& measured) {
  StepComparison comparison;
  comparison.predicted = predicted.length;
  comparison.measured = measured.length;
  add_products(predicted, measured, comparison);
  for (std::size_t c = 0; c < num_work_classes; ++c) {
    const auto kind = static_cast<WorkClass>(c);
    if (kind != WorkClass::Products)
      comparison.work.push_back({std::string(name_of(kind)), predicted.classes[c], measured.classes[c]});
  }
  comparison.work.push_back({"idle", {predicted.idle, 0}, {measured.idle, 0}});
  std::erase_if(comparison.work, [](const ComparedWork& work) {
    constexpr double kNothing = 1e-12;
    return work.predicted.time.value < kNothing && work.measured.time.value < kNothing;
  });
  std::ranges::stable_sort(comparison.work, std::greater<>(),
                           [](const ComparedWork& work) { return std::abs(work.difference().value); });
  return comparison;
}

std::string to_text(const StepComparison& comparison) {
  Table table({{"largest differences first"},
               {"predicted", Align::Right},
               {"calls", Align::Right},
               {"measured", Align::Right},
               {"calls", Align::Right},
               {"difference", Align::Right}});
  const auto signed_text = [](Seconds time) {
    return time.value < 0 ? "-" + pretty(Seconds(-time.value)) : "+" + pretty(time);
  };
  const auto time_text = [](const TimeAndCalls& of) { return of.time.value > 0 ? pretty(of.time) : ""; };
  const auto calls_text = [](const TimeAndCalls& of) { return of.calls > 0 ? std::to_string(of.calls) : ""; };
  table.add({"the step", pretty(comparison.predicted), "", pretty(comparison.measured), "",
             signed_text(comparison.predicted - comparison.measured)});
  for (const ComparedWork& work : comparison.work)
    table.add({work.name, time_text(work.predicted), calls_text(work.predicted), time_text(work.measured),
               calls_text(work.measured), signed_text(work.difference())});
  return fmt::format("{}, predicted, beside {}, measured\n\n{}", comparison.predicted_name,
                     comparison.measured_name, table.str(2));
}

nlohmann::ordered_json json_of(const StepComparison& comparison) {
  using Json = nlohmann::ordered_json;
  Json work = Json::array();
  for (const ComparedWork& one : comparison.work)
    work.push_back({{"work", one.name},
                    {"predicted_s", one.predicted.time.value},
                    {"predicted_calls", one.predicted.calls},
                    {"measured_s", one.measured.time.value},
                    {"measured_calls", one.measured.calls}});
  return {{"predicted", comparison.predicted_name},
          {"measured", comparison.measured_name},
          {"predicted_s", comparison.predicted.value},
          {"measured_s", comparison.measured.value},
          {"work", work}};
}

}  // namespace pipesim
