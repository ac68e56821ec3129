#include "tools/commands/search_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "search/baselines/baselines.h"
#include "sim/base/suggest.h"
#include "tools/cli/figures.h"
#include "tools/reports/baselines_report.h"
#include "tools/searching/hints.h"
#include "tools/searching/search_chart.h"

namespace pipesim {

bool runs_chains(const SearchRun& run) { return run.algorithm.splits == Algorithm::Splits::RunsChains; }

namespace {

using Json = nlohmann::ordered_json;

double rate(const SearchOutcome& outcome) {
  return outcome.seconds > 0 ? static_cast<double>(outcome.proposals) / outcome.seconds : 0;
}

std::string on_threads(const SearchRun& run) {
  return runs_chains(run) ? " on " + counted(run.threads, "thread") : "";
}

Json history_json(const SearchOutcome& outcome) {
  Json list = Json::array();
  for (const SearchImprovement& i : outcome.history) {
    list.push_back({{"proposals", i.proposals},
                    {"iteration_time_s", to_seconds(i.best).value},
                    {"chain", i.chain},
                    {"wall_time_s", i.seconds}});
  }
  return list;
}

std::string comparison(const std::string& found_by, Nanoseconds time,
                       const std::vector<Baseline>& baselines) {
  const Baseline* fastest = fastest_baseline(baselines);
  if (!fastest) return "";
  if (fastest->name == found_by) return ", the fastest baseline";
  const double times = static_cast<double>(fastest->scored->evaluation.time) / static_cast<double>(time);
  return fmt::format(", {}, the fastest baseline", faster_than(fastest->name, times));
}

std::string chart_of(const SearchRun& run, const std::vector<Baseline>& baselines,
                     const SearchOutcome& outcome, const Certainty& certainty) {
  SearchChart chart{outcome.history, ChartAxis::Proposals, static_cast<double>(outcome.proposals), {}, {}};
  if (run.budget.seconds > 0) {
    chart.axis = ChartAxis::WallTime;
    chart.end = outcome.seconds;
  }
  if (const Baseline* b = fastest_baseline(baselines)) chart.baseline = {b->name, b->scored->evaluation.time};
  if (certainty.bound) chart.lower_bound = {"lower bound", *certainty.bound};
  const std::string text = search_chart(chart);
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

Json json_of(const SearchRun& run, const PlanReport& report, const std::vector<Baseline>& baselines,
             const SearchOutcome& outcome, const Certainty& certainty, const WhyPlan& why) {
  Json json = json_of(report, run.topology);
  json["model"] = run.graph.name();
  json["topology"] = run.topology.name();
  json["seed"] = run.seed;
  json["baselines"] = json_of(baselines);
  json["best"] = outcome.found_by;
  if (!run.profile_note.empty()) json["profile_note"] = run.profile_note;
  json["proven_optimal"] = outcome.proven;
  if (certainty.bound) json["lower_bound_s"] = to_seconds(*certainty.bound).value;
  if (certainty.bound_is_late) json["lower_bound_s"] = nullptr;
  if (certainty.use) json["calibration"] = json_of(*certainty.use);
  json.update(json_of(certainty.reliance));
  json["search"] = {{"algorithm", run.algorithm.name},
                    {"proposals", outcome.proposals},
                    {"accepted", outcome.accepted},
                    {"proposals_per_second", rate(outcome)},
                    {"wall_time_s", outcome.seconds}};
  if (runs_chains(run)) json["search"]["threads"] = run.threads;
  json["history"] = history_json(outcome);
  json.update(json_of(why));
  return json;
}

std::string text_of(const SearchRun& run, const PlanReport& report, const std::vector<Baseline>& baselines,
                    const SearchOutcome& outcome, const Certainty& certainty, const std::string& configs,
                    const WhyPlan& why) {
  std::string text = fmt::format("{} on {} ({}), {}, seed {}\n\n", run.graph.name(), run.topology.name(),
                                 devices_text(run.topology), batch_text(run.graph, run.options), run.seed);
  if (!run.profile_note.empty()) text += fmt::format("  {}\n\n", run.profile_note);
  text += baselines_table(baselines, samples_per_iteration(run.graph, run.options));
  text += fmt::format("\nbest plan: {}{}{}\n", outcome.found_by,
                      comparison(outcome.found_by, report.iteration_time, baselines),
                      outcome.proven ? ", proven best of the candidate set" : "");
  if (const std::string far =
          certainty.bound ? far_above(*certainty.bound, report.iteration_time, &run.algorithm) : "";
      !far.empty())
    text += fmt::format("  {}\n", far);
  if (why.reason && !why.reason->same) text += why_lines(*why.reason);
  text += to_text(report, run.topology);
  if (certainty.bound)
    text += fmt::format("  {:13}  {}, {}\n", "lower bound", pretty(to_seconds(*certainty.bound)),
                        room_above(*certainty.bound, report.iteration_time));
  if (certainty.bound_is_late) text += fmt::format("  {:13}  {}\n", "lower bound", "not found: out of time");
  if (certainty.use) text += durations_line(*certainty.use);
  text += to_text(certainty.reliance);
  if (outcome.proposals > 0) {
    text += fmt::format("  {:13}  {} proposals, {} accepted, {:.0f} a second, {:.1f} s{}\n", "search",
                        outcome.proposals, outcome.accepted, rate(outcome), outcome.seconds, on_threads(run));
  }
  return text + chart_of(run, baselines, outcome, certainty) + "\n" + configs + "\n" + to_text(why);
}

}  // namespace pipesim
