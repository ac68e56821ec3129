#include "tools/render/inputs/prediction_interval_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pipesim {

std::string to_text(const Reliance& reliance) {
  std::string text;
  if (!reliance.runtime.empty()) text += fmt::format("  {:13}  {}\n", "runtime", reliance.runtime);
  if (const auto& interval = reliance.interval)
    text += fmt::format("  {:13}  90 % of runs within {} to {}, by constants fitted to {} runs\n", "interval",
                        pretty(interval->low), pretty(interval->high), reliance.runs);
  else if (reliance.uncalibrated)
    text += fmt::format("  {:13}  uncalibrated, from published figures of devices and links\n", "durations");
  return text;
}

nlohmann::ordered_json json_of(const Reliance& reliance) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!reliance.runtime.empty()) json["runtime"] = reliance.runtime;
  if (const auto& interval = reliance.interval)
    json["interval_s"] = {interval->low.value, interval->high.value};
  if (reliance.uncalibrated) json["uncalibrated"] = true;
  return json;
}

}  // namespace pipesim
