#include "tools/commands/planning/planner_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "search/auto/contributions.h"
#include "search/baselines/baselines.h"
#include "search/lower_bound/lower_bound.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/cli/status_line.h"
#include "tools/cli/table.h"
#include "tools/commands/options/plan_output.h"
#include "tools/commands/options/planner_options.h"
#include "tools/commands/options/search_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/commands/planning/framework_table.h"
#include "tools/commands/planning/planner_run.h"
#include "tools/commands/planning/recipe_ranking.h"
#include "tools/commands/planning/stage_costs_report.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/prediction_interval.h"
#include "tools/reports/pipeline_report.h"
#include "tools/reports/plan_costs.h"
#include "tools/reports/plan_reason.h"
#include "tools/reports/plan_report.h"
#include "tools/reports/report_in_time.h"
#include "tools/searching/hints.h"
#include "tools/searching/launched_peers.h"
#include "tools/searching/search_time.h"
#include "tools/searching/search_watch.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// Returns a table of the stages with their devices and their first and last operators.
std::string stage_table(const PlannedPipeline& planned) {
  if (!planned.options.pipeline) return "  no pipeline\n";
  const OperatorGraph& graph = planned.graph;
  const Pipeline& pipeline = *planned.options.pipeline;
  Table table({{"stage", Align::Right}, {"devices"}, {"from"}, {"to"}});
  for (std::int32_t s = 0; s < pipeline.num_stages(); ++s) {
    const std::vector<std::int32_t>& stage_of = pipeline.stage_of;
    const auto first = static_cast<std::size_t>(std::ranges::find(stage_of, s) - stage_of.begin());
    std::size_t last = stage_of.size() - 1;
    while (stage_of[last] != s) --last;
    std::set<DeviceId> devices_in_use;
    for (std::size_t i = 0; i < stage_of.size(); ++i) {
      if (stage_of[i] == s)
        devices_in_use.insert(planned.strategy[i].devices.begin(), planned.strategy[i].devices.end());
    }
    const auto used = static_cast<std::int64_t>(devices_in_use.size());
    const std::int64_t meant = planned.devices[static_cast<std::size_t>(s)];
    const std::int32_t replicas = pipeline.replicas_of(s);
    const std::string devices =
        used == meant ? devices_text(used, replicas)
                      : fmt::format("{} of {}: a microbatch can't be split in more", used, meant);
    table.add({fmt::format("{}", s), devices, graph.operators()[first].name, graph.operators()[last].name});
  }
  return table.str(2);
}

// Writes a time with enough digits to tell apart plans that differ by a thousandth of a percent.
std::string precise(Nanoseconds time) {
  constexpr double kSecond = 1e9, kMillisecond = 1e6, kMicrosecond = 1e3;
  const auto ns = static_cast<double>(time);
  const auto [unit, name] = ns >= kSecond        ? std::pair(kSecond, "s")
                            : ns >= kMillisecond ? std::pair(kMillisecond, "ms")
                                                 : std::pair(kMicrosecond, "us");
  constexpr double kThousand = 1e3, kHundred = 1e2, kTen = 10;
  const double value = ns / unit;
  const int decimals = value >= kThousand ? 2 : value >= kHundred ? 3 : value >= kTen ? 4 : 5;
  return fmt::format("{:.{}f} {}", value, decimals, name);
}

std::string contributions_text(const PlannedPipeline& planned, const Topology& topology) {
  if (planned.contributions.empty()) return "";
  Table table({{"algorithm"}, {"iteration", Align::Right}, {"took", Align::Right}, {""}});
  const auto all = static_cast<std::int64_t>(topology.num_devices());
  for (const Contribution& c : without_late_repeats(planned.contributions)) {
    std::vector<std::string> remarks;
    if (c.evaluation && !c.evaluation->feasible()) remarks.emplace_back("does not fit");
    if (c.evaluation && c.devices_used < all)
      remarks.push_back(fmt::format("{} of {} devices used", c.devices_used, all));
    if (!c.note.empty()) remarks.push_back(c.note);
    table.add({c.name, c.evaluation ? precise(c.evaluation->time) : "-", pretty(Seconds(c.seconds)),
               fmt::format("{}", fmt::join(remarks, "; "))});
  }
  return table.str(2) + "\n";
}

// All rows have the same keys; what a row has no plan for is null.
Json contributions_json(const PlannedPipeline& planned) {
  Json list = Json::array();
  for (const Contribution& c : planned.contributions) {
    Json row{{"algorithm", c.name},     {"iteration_time_s", nullptr}, {"fits", nullptr},
             {"devices_used", nullptr}, {"wall_time_s", c.seconds},    {"note", c.note}};
    if (c.evaluation) {
      row["iteration_time_s"] = to_seconds(c.evaluation->time).value;
      row["fits"] = c.evaluation->feasible();
      row["devices_used"] = c.devices_used;
    }
    list.push_back(std::move(row));
  }
  return list;
}

// "does not fit; 9 of 16 devices used".
std::string remarks_of(const PlannerTrial& trial, std::size_t devices) {
  std::string text = trial.evaluation->feasible() ? "" : "does not fit";
  if (trial.devices_used < devices)
    text += fmt::format("{}{} of {} devices used", text.empty() ? "" : "; ", trial.devices_used, devices);
  return text;
}

// A table of the best pipelines of all that were simulated.
std::string pipelines_text(const PlannerTrials& trials, std::size_t devices) {
  constexpr std::size_t kShown = 8;
  const bool replicated = trials.of == PlannerTrials::Of::ReplicatedStages;
  const std::size_t all = trials.tried.size();
  Table table({replicated ? Table::Column{"replicas"} : Table::Column{"stages", Align::Right},
               {replicated ? "copies" : "groups", Align::Right},
               {"schedule"},
               {"iteration", Align::Right},
               {""}});
  for (std::size_t i = 0; i < std::min(kShown, all); ++i) {
    const PlannerTrial& t = trials.tried[i];
    const std::string time = pretty(to_seconds(t.evaluation->time)), remarks = remarks_of(t, devices);
    if (replicated) {
      table.add({fmt::format("{}", fmt::join(t.replicas, ":")), fmt::format("{}", t.copies), t.schedule, time,
                 remarks});
    } else {
      table.add({fmt::format("{}", t.stages), fmt::format("{}", t.stages / t.chunks),
                 t.stages > 1 ? t.schedule : "data parallelism", time, remarks});
    }
  }
  std::string text = fmt::format("{} {} simulated\n", counted(static_cast<std::int64_t>(all), "pipeline"),
                                 all == 1 ? "was" : "were") +
                     table.str(2) + (all > kShown ? fmt::format("  … and {} more\n", all - kShown) : "");
  if (trials.not_simulated > 0)
    text += fmt::format("  {} more were not simulated: out of time\n", trials.not_simulated);
  if (trials.some_not_simulated) text += "  others were not simulated: out of time\n";
  return text;
}

std::string trials_text(const PlannerTrials& trials, std::size_t devices) {
  if (trials.of != PlannerTrials::Of::Schedules) return pipelines_text(trials, devices);
  Table table({{"schedule"}, {"iteration", Align::Right}, {""}});
  for (const PlannerTrial& t : trials.tried) {
    if (t.evaluation) {
      table.add({t.schedule, pretty(to_seconds(t.evaluation->time)),
                 t.evaluation->feasible() ? "" : "does not fit"});
    } else {
      table.add({t.schedule, "-", "not simulated: out of time"});
    }
  }
  return "schedules were simulated\n" + table.str(2);
}

// Returns the fastest baseline that fits, or else the nearest to fitting. A planner's scores are used again.
std::optional<std::pair<std::string, ScoredStrategy>> best_baseline(Evaluator& evaluator,
                                                                    const PlannedPipeline& planned) {
  std::optional<std::pair<std::string, ScoredStrategy>> best;
  for (const std::string_view name : baseline_names()) {
    try {
      ScoredStrategy scored{baseline_strategy(name, evaluator.graph(), evaluator.costs()), {}};
      const auto known = std::ranges::find(planned.contributions, name, &Contribution::name);
      if (known != planned.contributions.end() && !known->evaluation) continue;
      scored.evaluation =
          known != planned.contributions.end() ? *known->evaluation : evaluator.score(scored.strategy);
      const auto rank = [](const Evaluation& e) { return std::pair(e.overflow, e.time); };
      if (!best || rank(scored.evaluation) < rank(best->second.evaluation))
        best.emplace(name, std::move(scored));
    } catch (const InputError&) {  // it can't be formed
    }
  }
  return best;
}

// Returns about how many passes a strategy has, since the effort of looking into it grows with them.
std::int64_t number_of_passes(const Strategy& strategy, const PlanOptions& options) {
  std::int64_t shards = 0;
  for (const ParallelConfig& config : strategy) shards += config.num_shards();
  constexpr std::int64_t kPasses = 3;
  return kPasses * shards * options.microbatches;
}

// Returns why the plan is faster than the best baseline of what was asked for; nothing where that has another
// number of samples.
std::optional<PlanReason> reason_of(Evaluator& asked, const PlannedPipeline& planned,
                                    const ReasonedPlan& plan) {
  const PlanOptions& options = asked.contents().options();
  if (samples_per_iteration(asked.graph(), options) != samples_per_iteration(planned.graph, planned.options))
    return std::nullopt;
  const auto best = best_baseline(asked, planned);
  if (!best) return std::nullopt;
  const auto& [name, scored] = *best;
  if (scored.strategy == planned.strategy && !planned.options.pipeline &&
      options.microbatches == planned.options.microbatches)
    return same_plan({name, scored, ""});
  const auto tasks = static_cast<std::int64_t>(plan.costs.report.num_tasks);
  constexpr std::int64_t kMostPasses = 1'000'000;
  if (number_of_passes(scored.strategy, options) > std::max(kMostPasses, tasks))
    return times_alone(name, scored.evaluation, plan.costs.report.iteration_time);
  const BoundStrategy strategy = asked.contents().bind(scored.strategy);
  const PlanCosts costs = plan_costs(asked, strategy);
  return plan_reason(planned.graph, {name, strategy, costs, options}, plan,
                     costs.report.infeasible.value_or(""));
}

// Returns a line for a plan far above the lower bound. The bound does not hold for measured durations, which
// may be shorter than it assumes, nor where iterations overlap.
std::string bound_text(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                       Nanoseconds time, const Algorithm& algorithm) {
  const bool one_by_one =
      !options.pipeline || schedule_kind(options.pipeline->schedule).weights == WeightChange::AfterIteration;
  if (costs.calibrated() || !one_by_one) return "";
  const std::string far = far_above(lower_bound(graph, costs, options), time, &algorithm);
  return far.empty() ? "" : fmt::format("  {}\n", far);
}

// The planner leaves time for what is ranked after it: each framework's recipes, or those that stand in.
Deadline planning_time(const SearchTime& time, double share) {
  const Deadline whole = time.search();
  return share < 1 && time.limited() ? whole.within(share * whole.left()) : whole;
}

// Where several processes plan, the first one reports what they have found. The planner gets this share of
// the time, and less where each framework's recipes are ranked after it.
int plan_and_report(const PlannerRun& run, SearchTime time, double share, PeerProcesses* peers,
                    Streams& streams) {
  constexpr double kShareBeforeFrameworks = 0.7;
  constexpr double kShareOfReport = 0.1;
  time.keep_for_report(kShareOfReport * run.seconds);
  const Topology& topology = run.topology;
  const std::string algorithm = run.algorithm();
  const std::optional<Calibration> calibration = open_calibration(run.calibration, topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration), run.runtime);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  PlanRequest request = request_of(run, costs);
  request.peers = peers;
  std::optional<StatusLine> line;
  request.status = [&](std::string_view text) {
    if (!line) line.emplace(streams);
    if (!text.empty() && line->due()) line->show(std::string(text));
    if (text.empty()) line.reset();
  };
  std::optional<SearchWatch> watch;
  if (run.planner.reports_progress) {
    watch.emplace(streams, SearchBudget{}, std::nullopt, run.log);
    request.observer = &*watch;
  }
  const bool compares = compares_frameworks(run) && peers == nullptr;
  const Deadline whole = time.search();
  if (compares) request.until_few = &whole;
  PlannedPipeline planned =
      propose_in_time(request, run, planning_time(time, compares ? kShareBeforeFrameworks : share));
  line.reset();
  if (peers != nullptr && peers->rank() > 0) return 0;
  const double planned_s = std::chrono::duration<double>(Clock::now() - began).count();
  std::vector<FrameworkRow> rows;
  if (compares && planned.recipes) {
    const Deadline until = time.search();
    const KeepTo keep(until);
    rows = framework_rows(run, *planned.recipes);
  }
  const Deadline reported = time.report();
  std::optional<KeepTo> keep(std::in_place, reported);
  take_fastest_of(rows, request, planned);
  keep.reset();
  const OperatorGraph& graph = planned.graph;
  const std::string text = with_token_groups(with_zigzag(run.model.model, run.graph, planned.sequence.parts),
                                             planned.sequence.token_groups);
  Plan plan{planned.batch ? with_batch(text, *planned.batch) : text,
            run.topology_text,
            graph.fingerprint(),
            topology.fingerprint(),
            planned.options,
            algorithm,
            planned.seed,
            planned.strategy};
  if (const auto reason = illegal(graph, plan.strategy, plan.options, topology)) throw InputError(*reason);
  const Recipe* recipe = recipe_of_plan(run, planned);
  plan.runtime = runtime_of_plan(run, recipe);
  const CostModel costs_of_plan(topology, pointer_to(calibration), plan.runtime);

  keep.emplace(reported);
  Evaluator evaluator(graph, costs_of_plan, plan.options);
  const BoundStrategy strategy = evaluator.contents().bind(plan.strategy);
  PlanReport report = report_in_time(evaluator, strategy, planned.scored, flops_counting_of(run.framework));
  if (report.recipe.empty() && recipe != nullptr) report.recipe = recipe->str();
  plan.recipe = report.recipe;
  constexpr std::size_t kStrip = 96, kConfigs = 12;
  std::optional<PipelineReport> pipeline;
  if (report.in_full) pipeline = report_pipeline(evaluator, strategy, report.memory, kStrip);
  std::optional<PlanReason> reason;
  std::string far;
  try {
    far = bound_text(graph, costs, plan.options, report.iteration_time, run.planner);
    if (report.in_full && may_report_in_full(evaluator, strategy)) {
      Evaluator baselines(run.graph, costs, run.options);
      reason =
          reason_of(baselines, planned, {algorithm, strategy, plan_costs(evaluator, strategy), plan.options});
    }
  } catch (const OutOfTime&) {  // the plan is told without them
  }
  keep.reset();
  const Reliance reliance =
      reliance_of(graph, topology, calibration, plan, report.iteration_time, !run.profile_note.empty());
  if (!report.infeasible) give_plan(streams, run.output, plan, graph, topology);
  std::vector<std::string> hints;
  if (report.infeasible) hints = hints_to_fit(evaluator, plan.strategy, &run.planner);
  const std::string& profile = run.profile_note;
  if (run.json) {
    Json json = json_of(report, topology);
    json["model"] = graph.name();
    json["topology"] = topology.name();
    json["best"] = algorithm;
    json["reason"] = reason ? json_of(*reason) : Json();
    if (planned.objective) json[planned.objective->key] = planned.objective->value;
    if (planned.objective && planned.objective->activation_factor)
      json["planner_activation_factor"] = *planned.objective->activation_factor;
    json["planner_wall_time_s"] = planned_s;
    if (run.planner.asks_others) json["threads"] = run.settings.chains.threads;
    json["planner_devices"] = planned.devices;
    if (!planned.note.empty()) json["note"] = planned.note;
    if (!run.stands_in_because.empty()) json["stands_in"] = run.stands_in_because;
    if (planned.proven) json["proven_optimal"] = *planned.proven;
    if (!profile.empty()) json["profile_note"] = profile;
    json.update(json_of(reliance));
    if (pipeline) json["pipeline"] = json_of(*pipeline);
    if (!planned.contributions.empty()) json["contributions"] = contributions_json(planned);
    if (planned.recipes) json["recipes"] = json_of(*planned.recipes);
    if (!rows.empty()) json["frameworks"] = json_of(rows, report.iteration_time);
    if (report.infeasible) json["hints"] = hints;
    give_document(streams, json);
  } else {
    streams.out << fmt::format(
                       "{} on {} ({}), {}, planned by {} in {}{}\n\n", graph.name(), topology.name(),
                       devices_text(topology), batch_text(graph, plan.options), algorithm,
                       pretty(Seconds(planned_s)),
                       run.planner.asks_others ? " on " + counted(run.settings.chains.threads, "thread") : "")
                << (planned.recipes ? "" : stage_table(planned) + "\n")  // a recipe says it
                << contributions_text(planned, topology);
    if (planned.trials.of != PlannerTrials::Of::Nothing)
      streams.out << trials_text(planned.trials, topology.num_devices()) << "\n";
    if (planned.recipes) streams.out << to_text(*planned.recipes) << "\n";
    if (planned.objective) streams.out << fmt::format("  {}, says the planner\n", planned.objective->text);
    if (!planned.note.empty()) streams.out << fmt::format("  {}\n", planned.note);
    if (!run.stands_in_because.empty()) streams.out << fmt::format("  {}\n", run.stands_in_because);
    if (!profile.empty()) streams.out << fmt::format("  {}\n", profile);
    streams.out << "\nsimulated\n"
                << far << (reason ? why_lines(*reason) : "") << to_text(report, topology) << to_text(reliance)
                << "\n"
                << (pipeline
                        ? to_text(*pipeline) + "\n" + memory_table(report.memory_of_stages, topology) + "\n"
                        : "")
                << configs_text(graph, strategy, kConfigs, plan.options.pipeline)
                << (rows.empty() ? "" : "\n" + to_text(rows, report.iteration_time, plan.runtime.name));
  }
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << hints_text(hints) << "\n";
  return 1;
}

int plan_together(const Arguments& a, Streams& streams) {
  const bool limited = a.given("seconds") && search_budget_of(a).seconds > 0;
  if (!algorithm_of(a).ranks_recipes || limited)
    throw UsageError(fmt::format(
        "search: mpirun shares out the recipes of --algorithm recipes without --seconds; found {}",
        limited ? "--seconds" : "--algorithm " + a.text("algorithm")));
  const std::unique_ptr<PeerProcesses> peers = peers_of_launcher(a, streams);
  std::ostringstream nobody;
  Streams quiet{streams.in, nobody, nobody};
  const bool first = peers->rank() == 0;
  const Arguments unlimited = a.with("seconds", "0");
  return plan_and_report(planner_run_of(first ? unlimited : unlimited.with("search-log", "")), SearchTime(0),
                         1, peers.get(), first ? streams : quiet);
}

// Returns the arguments for recipes that stand in for a planner; nothing where an option asks for what
// recipes choose themselves.
std::optional<Arguments> asked_of_recipes(const Arguments& a) {
  Arguments asked = a.with("algorithm", std::string(recipe_algorithm().name));
  try {
    check_search_options(asked);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  return asked;
}

// Where a planner finds no plan and the model has recipes, the answer is the best recipe that is found in the
// time that is left.
int plan_alone(const Arguments& a, const SearchTime& time, Streams& streams) {
  constexpr double kShareBeforeRecipes = 0.5;
  const PlannerRun run = planner_run_of(a);
  std::optional<Arguments> recipes;
  if (time.limited() && !run.by_recipes && has_recipes(run.graph)) recipes = asked_of_recipes(a);
  if (!recipes) return plan_and_report(run, time, 1, nullptr, streams);
  std::string why;
  try {
    return plan_and_report(run, time, kShareBeforeRecipes, nullptr, streams);
  } catch (const NoPlanFound& none) {
    why = none.what();
  }
  PlannerRun stand_in = planner_run_of(*recipes);
  stand_in.stands_in_because = fmt::format("recipes stand in for {}, which has no answer", run.planner.name);
  streams.err << fmt::format("pipesim: {}\npipesim: {}\n", why, stand_in.stands_in_because);
  return plan_and_report(stand_in, time, 1, nullptr, streams);
}

}  // namespace

int run_planner(const Arguments& a, Streams& streams) {
  const SearchTime time(search_budget_of(a).seconds);  // of reading the model and the topology as well
  try {
    if (a.has("stage-costs") && !a.has("model") && !a.given("set")) return report_stage_costs(a, streams);
    if (processes_of_launcher() == 1 || streams.caller != nullptr) return plan_alone(a, time, streams);
    return plan_together(a, streams);
  } catch (const OutOfTime&) {
    if (streams.caller != nullptr && streams.caller->stop_requested()) return kInterruptedStatus;
    throw InputError(fmt::format("{}: the plan was not simulated in the {} s of --seconds; allow more",
                                 a.text("algorithm"), search_budget_of(a).seconds));
  } catch (const Interrupted& end) {
    streams.err << fmt::format("pipesim: {}\n", end.what());
    return kInterruptedStatus;
  }
}

}  // namespace pipesim
