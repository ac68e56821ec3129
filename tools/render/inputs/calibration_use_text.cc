#include "tools/render/inputs/calibration_use_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"

namespace pipesim {
namespace {

constexpr DurationSource all_sources[] = {DurationSource::Measured, DurationSource::Interpolated,
                                          DurationSource::Extrapolated, DurationSource::Analytic};

std::size_t number_of(DurationSource source) { return static_cast<std::size_t>(source); }

}  // namespace

std::string to_text(const CalibrationUse& use) {
  std::int64_t all = 0;
  for (const std::int64_t tasks : use.tasks) all += tasks;
  std::string text = fmt::format("{} of {} tasks measured ({} of their time)",
                                 use.tasks[number_of(DurationSource::Measured)], all,
                                 percent(use.share[number_of(DurationSource::Measured)]));
  for (const DurationSource source : all_sources) {
    if (source != DurationSource::Measured && use.tasks[number_of(source)] > 0)
      text += fmt::format(", {} {} ({})", use.tasks[number_of(source)], name_of(source),
                          percent(use.share[number_of(source)]));
  }
  if (use.guesses.empty()) return text;
  const Guess& largest = use.guesses.front();
  return text + fmt::format("; largest guess: {} ({}, {})", largest.key, percent(largest.share),
                            name_of(largest.source));
}

std::string durations_line(const CalibrationUse& use) {
  return fmt::format("  {:13}  {}\n", "durations", to_text(use));
}

nlohmann::ordered_json json_of(const CalibrationUse& use, std::size_t most) {
  nlohmann::ordered_json json;
  for (const DurationSource source : all_sources) {
    json[std::string(name_of(source))] = {{"tasks", use.tasks[number_of(source)]},
                                          {"share", use.share[number_of(source)]}};
  }
  json["guesses"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(most, use.guesses.size()); ++i) {
    const Guess& g = use.guesses[i];
    json["guesses"].push_back(
        {{"key", g.key}, {"source", name_of(g.source)}, {"tasks", g.tasks}, {"share", g.share}});
  }
  return json;
}

}  // namespace pipesim
