#include "tools/cli/planning/search_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "search/baselines/baselines.h"
#include "sim/base/suggest.h"
#include "tools/base/figures.h"
#include "tools/cli/planning/planned_text.h"
#include "tools/cli/planning/recipe_ranking.h"
#include "tools/cli/searching/hints.h"
#include "tools/render/inputs/calibration_use_text.h"
#include "tools/render/inputs/prediction_interval_text.h"
#include "tools/render/plans/baselines_report.h"
#include "tools/render/plans/breakdown_text.h"
#include "tools/render/plans/pipeline_report_text.h"
#include "tools/render/plans/plan_reason_text.h"
#include "tools/render/plans/plan_report_text.h"
#include "tools/render/searching/search_chart.h"
#include "tools/render/searching/why_plan_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

double rate(const SearchRecord& record) {
  return record.seconds > 0 ? static_cast<double>(record.proposals) / record.seconds : 0;
}

Json history_json(const SearchRecord& record) {
  Json list = Json::array();
  for (const SearchImprovement& i : record.history) {
    list.push_back({{"proposals", i.proposals},
                    {"iteration_time_s", to_seconds(i.best).value},
                    {"chain", i.chain},
                    {"wall_time_s", i.seconds}});
  }
  return list;
}

// How the algorithm searched; counts are null where it does not propose changes.
Json record_json(const SearchAnswer& answer) {
  const PlannerAnswer& planned = answer.planned;
  const SearchRun& run = answer.run;
  Json json{{"algorithm", run.algorithm.name}, {"proposals", nullptr},           {"accepted", nullptr},
            {"proposals_per_second", nullptr}, {"wall_time_s", planned.seconds}, {"threads", nullptr}};
  if (const auto& record = planned.record) {
    json["proposals"] = record->proposals;
    json["accepted"] = record->accepted;
    json["proposals_per_second"] = rate(*record);
    json["wall_time_s"] = record->seconds;
  }
  if (run.takes("threads")) json["threads"] = run.threads();
  return json;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <class T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(json_of(*value)) : Json();
}

std::string comparison(const std::string& found_by, Nanoseconds time,
                       const std::vector<Baseline>& baselines) {
  const Baseline* fastest = fastest_baseline(baselines);
  if (!fastest) return "";
  if (fastest->name == found_by) return ", the fastest baseline";
  const double times = static_cast<double>(fastest->scored->evaluation.time) / static_cast<double>(time);
  return fmt::format(", {}, the fastest baseline", faster_than(fastest->name, times));
}

std::string chart_of(const SearchAnswer& answer, const SearchRecord& record) {
  SearchChart chart{record.history, ChartAxis::Proposals, static_cast<double>(record.proposals), {}, {}};
  if (answer.run.settings.budget.seconds > 0) {
    chart.axis = ChartAxis::WallTime;
    chart.end = record.seconds;
  }
  if (const Baseline* b = fastest_baseline(answer.baselines))
    chart.baseline = {b->name, b->scored->evaluation.time};
  if (answer.lower_bound) chart.lower_bound = {"lower bound", *answer.lower_bound};
  const std::string text = search_chart(chart);
  return text.empty() ? "" : "\n" + text;
}

// Names a plan that is far above what is possible.
std::string far_text(const SearchAnswer& answer) {
  if (!answer.lower_bound) return "";
  const std::string far = far_above(*answer.lower_bound, answer.report.iteration_time, &answer.run.algorithm);
  return far.empty() ? "" : fmt::format("  {}\n", far);
}

std::string subject_text(const SearchAnswer& answer, const OperatorGraph& graph, const PlanOptions& options) {
  const Topology& topology = answer.run.topology;
  return fmt::format("{} on {} ({}), {}", graph.name(), topology.name(), devices_text(topology),
                     batch_text(graph, options));
}

// The baselines, the search and its plan, and what would make that better.
std::string splits_text(const SearchAnswer& answer) {
  const SearchRun& run = answer.run;
  const PlannerAnswer& planned = answer.planned;
  const SearchRecord& record = *planned.record;
  const Nanoseconds time = answer.report.iteration_time;
  std::string text =
      fmt::format("{}, seed {}\n\n", subject_text(answer, run.graph, run.options), planned.seed);
  if (!run.profile_note.empty()) text += fmt::format("  {}\n\n", run.profile_note);
  text += baselines_table(answer.baselines, samples_per_iteration(run.graph, run.options));
  text += fmt::format("\nbest plan: {}{}{}\n", planned.found_by,
                      comparison(planned.found_by, time, answer.baselines),
                      planned.proven.value_or(false) ? ", proven best of the candidate set" : "");
  text += far_text(answer);
  if (answer.reason && !answer.reason->same) text += why_lines(*answer.reason);
  text += to_text(answer.report, run.topology);
  if (answer.lower_bound) {
    text += fmt::format("  {:13}  {}, {}\n", "lower bound", pretty(to_seconds(*answer.lower_bound)),
                        room_above(*answer.lower_bound, time));
  } else if (answer.bound_is_late) {
    text += fmt::format("  {:13}  {}\n", "lower bound", "not found: out of time");
  }
  if (answer.calibration) text += durations_line(*answer.calibration);
  text += to_text(answer.reliance);
  if (record.proposals > 0) {
    const std::string threads = run.takes("threads") ? " on " + counted(run.threads(), "thread") : "";
    text += fmt::format("  {:13}  {} proposals, {} accepted, {:.0f} a second, {:.1f} s{}\n", "search",
                        record.proposals, record.accepted, rate(record), record.seconds, threads);
  }
  return text + chart_of(answer, record) + "\n" + answer.configs + "\n" + to_text(*answer.why);
}

std::string notes_text(const SearchAnswer& answer) {
  std::string text;
  const PlannerAnswer& planned = answer.planned;
  if (planned.objective) text += fmt::format("  {}, says the planner\n", planned.objective->text);
  for (const std::string& note : {planned.note, answer.run.stands_in_because, answer.run.profile_note}) {
    if (!note.empty()) text += fmt::format("  {}\n", note);
  }
  return text;
}

// How the planner came to its plan, and what that is when it is simulated.
std::string planner_text(const SearchAnswer& answer) {
  const SearchRun& run = answer.run;
  const PlannerAnswer& planned = answer.planned;
  const Topology& topology = run.topology;
  std::string text = fmt::format("{}, planned by {} in {}{}\n\n",
                                 subject_text(answer, planned.plan.graph, answer.plan.options),
                                 run.algorithm.name, pretty(Seconds(planned.seconds)),
                                 run.algorithm.asks_others ? " on " + counted(run.threads(), "thread") : "");
  text += to_text(planned, topology);
  if (planned.recipes) text += to_text(*planned.recipes) + "\n";
  text += notes_text(answer) + "\nsimulated\n" + far_text(answer);
  if (answer.reason) text += why_lines(*answer.reason);
  text += to_text(answer.report, topology);
  if (answer.calibration) text += durations_line(*answer.calibration);
  text += to_text(answer.reliance) + "\n";
  if (answer.pipeline)
    text += to_text(*answer.pipeline) + "\n" + memory_table(answer.report.memory_of_stages, topology) + "\n";
  text += answer.configs;
  if (!answer.rows.empty())
    text += "\n" + to_text(answer.rows, answer.report.iteration_time, answer.plan.runtime.name);
  return text;
}

}  // namespace

Json json_of(const SearchAnswer& answer) {
  const SearchRun& run = answer.run;
  const PlannerAnswer& planned = answer.planned;
  Json json = json_of(answer.report, run.topology);
  json["model"] = planned.plan.graph.name();
  json["topology"] = run.topology.name();
  json["best"] = planned.found_by;
  json["seed"] = run.of_splits || run.takes("seed") ? Json(planned.seed) : Json();
  json["search"] = record_json(answer);
  json["history"] = history_json(planned.record.value_or(SearchRecord()));
  json["baselines"] = json_of(answer.baselines);
  json["proven_optimal"] = planned.proven ? Json(*planned.proven) : Json();
  json["lower_bound_s"] = answer.lower_bound ? Json(to_seconds(*answer.lower_bound).value) : Json();
  json["calibration"] = json_or_null(answer.calibration);
  json.update(json_of(answer.reliance));
  json["reason"] = json_or_null(answer.reason);
  json["against_baseline"] = nullptr;
  json["one_more_change"] = nullptr;
  if (answer.why) json.update(json_of(*answer.why));
  json["objective"] = json_or_null(planned.objective);
  json["stage_devices"] = planned.plan.devices;
  json["pipeline"] = json_or_null(answer.pipeline);
  json["contributions"] = contributions_json(planned);
  json["recipes"] = json_or_null(planned.recipes);
  json["frameworks"] = json_of(answer.rows, answer.report.iteration_time);
  json["note"] = text_or_null(planned.note);
  json["stands_in"] = text_or_null(run.stands_in_because);
  json["profile_note"] = text_or_null(run.profile_note);
  json["model_note"] = text_or_null(run.model_note);
  json["model_left_out"] = run.model_left_out;
  json["hints"] = answer.hints;
  return json;
}

std::string to_text(const SearchAnswer& answer) {
  return answer.why ? splits_text(answer) : planner_text(answer);
}

}  // namespace pipesim
