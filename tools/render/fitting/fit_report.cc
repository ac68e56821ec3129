#include "tools/render/fitting/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// How much of what was not known before the runs tell.
double learned(const RunsFit& fit, std::size_t i) {
  const double before = fit.prior_scale * prior_deviation(fit.constants.constants[i].kind);
  return std::max(0.0, 1 - deviation_of(fit.constants, i) / before);
}

std::string constants_table(const RunsFit& fit) {
  const ClusterConstants& constants = fit.constants;
  Table table(
      {{"constant"}, {"factor", Align::Right}, {"90 % interval", Align::Right}, {"learned", Align::Right}});
  for (std::size_t i = 0; i < constants.constants.size(); ++i) {
    const PredictionInterval interval = interval_of_factor(constants, i);
    table.add({constants.constants[i].text(), fmt::format("{:.3f}", std::exp(constants.constants[i].log)),
               fmt::format("{:.3f} to {:.3f}", interval.low.value, interval.high.value),
               fmt::format("{:.0f} %", 100 * learned(fit, i))});
  }
  return table.str(2);
}

std::string errors_table(const RunsFit& fit) {
  Table table({{"mean error of"},
               {"runs", Align::Right},
               {"before", Align::Right},
               {"after", Align::Right},
               {"left out", Align::Right},
               {"in their interval", Align::Right}});
  const auto add = [&](const char* name, const FitErrors& errors, bool fitted) {
    if (errors.runs == 0) return;
    table.add({name, std::to_string(errors.runs), percent(errors.before), percent(errors.after),
               fitted ? percent(errors.left_out) : "", percent(errors.intervals_held)});
  };
  add("runs that were fitted", fit.fitted, true);
  add("other runs of the table", fit.others, false);
  return table.str(2);
}

Json json_of(const FitErrors& errors, bool fitted) {
  Json json{{"runs", errors.runs},
            {"mean_error_before", errors.before},
            {"mean_error_after", errors.after},
            {"intervals_held", errors.intervals_held}};
  if (fitted) json["mean_error_left_out"] = errors.left_out;
  return json;
}

}  // namespace

std::string to_text(const RunsFit& fit, const std::string& file) {
  std::string text = fmt::format("{}: constants of {}, fitted to {} of {} runs\n\n", file,
                                 fit.constants.device, fit.fitted.runs, fit.rows);
  text += constants_table(fit) + "\n" + errors_table(fit);
  text += fmt::format("\n  what constants do not explain: {} (standard deviation)\n",
                      percent(fit.constants.discrepancy));
  if (fit.prior_scale < 1)
    text += fmt::format(
        "  constants are held {:.3g} times closer to 1 than usual, since that predicts runs better that "
        "the fit has not seen\n",
        1 / fit.prior_scale);
  if (fit.next.empty()) return text;
  Table next({{"run next, to learn most"},
              {"recipe"},
              {"batch", Align::Right},
              {"predicted", Align::Right},
              {"90 % interval", Align::Right}});
  for (const NextRun& run : fit.next)
    next.add({run.run.model + " on " + run.run.topology, run.run.recipe, std::to_string(run.run.batch),
              pretty(run.predicted),
              fmt::format("{} to {}", pretty(run.interval.low), pretty(run.interval.high))});
  return text + "\n" + next.str(2);
}

Json json_of(const RunsFit& fit) {
  Json constants = Json::array(), next = Json::array();
  for (std::size_t i = 0; i < fit.constants.constants.size(); ++i) {
    const PredictionInterval interval = interval_of_factor(fit.constants, i);
    constants.push_back({{"constant", fit.constants.constants[i].text()},
                         {"factor", std::exp(fit.constants.constants[i].log)},
                         {"interval", {interval.low.value, interval.high.value}},
                         {"learned", learned(fit, i)}});
  }
  for (const NextRun& run : fit.next)
    next.push_back({{"model", run.run.model},
                    {"devices", run.run.topology},
                    {"recipe", run.run.recipe},
                    {"batch", run.run.batch},
                    {"runtime", run.run.runtime},
                    {"predicted_s", run.predicted.value},
                    {"interval_s", {run.interval.low.value, run.interval.high.value}}});
  Json json{{"device", fit.constants.device},
            {"rows", fit.rows},
            {"constants", constants},
            {"prior_scale", fit.prior_scale},
            {"discrepancy", fit.constants.discrepancy},
            {"fitted", json_of(fit.fitted, true)}};
  if (fit.others.runs > 0) json["others"] = json_of(fit.others, false);
  json["next"] = next;
  return json;
}

}  // namespace pipesim
