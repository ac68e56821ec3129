#include "tools/analysis/traces/comparing/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"

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

}  // namespace pipesim
