#include "tools/render/traces/step_comparison_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

namespace pipesim {

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
