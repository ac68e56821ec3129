#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>

#include "search/baselines/baselines.h"
#include "search/lower_bound/lower_bound.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/plans/plan_costs.h"
#include "tools/analysis/plans/report_in_time.h"
#include "tools/analysis/searching/search_time.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/plan_output.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/search_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/planning/framework_table.h"
#include "tools/cli/planning/search_report.h"
#include "tools/cli/planning/search_run.h"
#include "tools/cli/planning/stage_costs_report.h"
#include "tools/cli/searching/hints.h"
#include "tools/cli/searching/launched_peers.h"
#include "tools/cli/searching/search_watch.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

// Returns about how many passes a strategy has, since the effort of looking into it grows with them.
std::int64_t number_of_passes(const Strategy& strategy, const PlanOptions& options) {
  std::int64_t shards = 0;
  for (const ParallelConfig& config : strategy) shards += config.num_shards();
  constexpr std::int64_t kPasses = 3;
  return kPasses * shards * options.microbatches;
}

// Returns why the plan is faster than the best baseline of what was asked for; nothing where that has another
// number of samples.
std::optional<PlanReason> reason_of(Evaluator& asked, const PlannedModel& planned, const ReasonedPlan& plan,
                                    const std::vector<Baseline>& baselines) {
  const PlanOptions& options = asked.contents().options();
  if (samples_per_iteration(asked.graph(), options) != samples_per_iteration(planned.graph, planned.options))
    return std::nullopt;
  const Baseline* best = nullptr;  // where none fits, the one that lacks least memory, all devices together
  const auto rank = [](const Baseline& b) {
    return std::pair(b.scored->evaluation.overflow, b.scored->evaluation.time);
  };
  for (const Baseline& b : baselines) {
    if (b.scored && (best == nullptr || rank(b) < rank(*best))) best = &b;
  }
  if (best == nullptr) return std::nullopt;
  const Scored<Strategy>& scored = *best->scored;
  if (scored.plan == planned.strategy && !planned.options.pipeline &&
      options.microbatches == planned.options.microbatches)
    return same_plan({best->name, scored, ""});
  const auto tasks = static_cast<std::int64_t>(plan.costs.report.num_tasks);
  constexpr std::int64_t kMostPasses = 1'000'000;
  if (number_of_passes(scored.plan, options) > std::max(kMostPasses, tasks))
    return times_alone(best->name, scored.evaluation, plan.costs.report.iteration_time);
  const BoundStrategy strategy = asked.contents().bind(scored.plan);
  const PlanCosts costs = plan_costs(asked, strategy);
  return plan_reason(planned.graph, {best->name, strategy, costs, options}, plan,
                     costs.report.infeasible.value_or(""));
}

// What the search found, and what it is judged by.
struct SearchFindings {
  const SearchRun& run;
  const std::optional<Calibration>& calibration;
  const CostModel& costs;  // of the request
  const PlannerAnswer& planned;
  const SearchTime& time;
};

// Adds what is told of a plan beside its report, as far as there is time: the bound, why it is faster than
// the best baseline, and what would make it better.
void explain(const SearchFindings& found, Evaluator& evaluator, const BoundStrategy& strategy,
             const std::optional<CandidateSet>& candidates, SearchAnswer& answer) {
  const auto& [run, calibration, costs, planned, time] = found;
  const bool in_full = answer.report.in_full && may_report_in_full(evaluator, strategy);
  answer.baselines = planned.baselines;
  answer.lower_bound = planned.lower_bound;
  if (candidates) {
    answer.bound_is_late = has_bound(costs, answer.plan.options) && !answer.lower_bound;
    const TryBudget budget = time.shortened(try_budget(run.settings.budget, *planned.record));
    answer.why.emplace(
        why_plan(evaluator, *candidates, answer.baselines, {planned.plan.strategy, *planned.scored}, budget));
    answer.reason = answer.why->reason;
    return;
  }
  try {
    if (has_bound(costs, answer.plan.options))
      answer.lower_bound = lower_bound(planned.plan.graph, costs, answer.plan.options);
    if (!in_full) return;
    Evaluator asked(run.graph, costs, run.options);
    if (planned.contributions.empty()) answer.baselines = score_baselines(asked);
    answer.reason = reason_of(
        asked, planned.plan,
        {std::string(run.algorithm.name), strategy, plan_costs(evaluator, strategy), answer.plan.options},
        answer.baselines);
  } catch (const OutOfTime&) {  // the plan is told without them
  }
}

// Reports the plan, and writes it where it fits. The exit status is 1 where it does not.
int report_plan_found(const SearchFindings& found, Streams& streams, std::vector<FrameworkRow> rows) {
  const auto& [run, calibration, costs, planned, time] = found;
  const OperatorGraph& graph = planned.plan.graph;
  // A request to stop has ended the search. It does not end the report, nor keep the plan from its file.
  const KeepTo no_deadline(static_cast<const Deadline*>(nullptr));
  std::optional<CandidateSet> candidates;  // of a search over splits
  if (run.of_splits) candidates.emplace(graph, run.topology);
  // What the plan is, without which there is nothing to tell, comes first, whatever time is left.
  const Recipe* const recipe = recipe_of_plan(run, planned);
  SearchAnswer answer{run, planned, plan_of(run, planned, runtime_of_plan(run, recipe)), {}};
  Plan& made = answer.plan;
  answer.rows = std::move(rows);
  const CostModel costs_of_plan(run.topology, pointer_to(calibration), made.runtime);
  Evaluator evaluator(graph, costs_of_plan, made.options);
  const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
  const Deadline reported = time.report();
  std::optional<KeepTo> keep(std::in_place, reported);
  PlanReport& report = answer.report;
  report = report_in_time(evaluator, strategy, planned.scored, flops_counting_of(run.framework));
  if (report.recipe.empty() && recipe != nullptr) report.recipe = recipe->str();
  made.recipe = report.recipe;
  constexpr std::size_t kStrip = 96, kConfigs = 12;
  if (report.in_full) answer.pipeline = report_pipeline(*report.part, strategy, report.memory, kStrip);
  report.part.reset();  // nothing reads its tasks any more
  answer.configs = configs_text(graph, strategy, kConfigs, made.options.pipeline);
  if (calibration && calibration->has_durations() && report.in_full &&
      may_report_in_full(evaluator, strategy))
    answer.calibration = calibration_use(evaluator, strategy);
  keep.reset();
  if (!report.infeasible) give_plan(streams, run.output, made, graph, run.topology);
  answer.reliance =
      reliance_of(graph, run.topology, calibration, made, report.iteration_time, !run.profile_note.empty());
  keep.emplace(reported);
  explain(found, evaluator, strategy, candidates, answer);
  keep.reset();
  if (report.infeasible) answer.hints = hints_to_fit(evaluator, made.strategy, &run.algorithm);
  if (run.json) {
    give_document(streams, json_of(answer));
  } else {
    streams.out << to_text(answer);
  }
  if (!report.infeasible) return 0;
  streams.err << "pipesim: the plan does not fit: " << *report.infeasible << hints_text(answer.hints) << "\n";
  return 1;
}

// The planner leaves time for what is ranked after it: each framework's recipes, or those that stand in.
Deadline planning_time(const SearchTime& time, double share) {
  const Deadline whole = time.search();
  return share < 1 && time.limited() ? whole.within(share * whole.left()) : whole;
}

// What may help where nothing fits; "" where there is no time to find out.
std::string hints_in_time(const SearchRun& run, const CostModel& costs, const Baseline& nearest,
                          const SearchTime& time) {
  const Deadline until = time.report();
  const KeepTo keep(until);
  try {
    Evaluator evaluator(run.graph, costs, run.options);
    return hints_text(
        hints_to_fit(evaluator, nearest, {run.model, run.options.microbatches}, &run.algorithm));
  } catch (const OutOfTime&) {
    return "";
  }
}

// Where several processes plan, the first one reports what they have found. The algorithm gets this share of
// the time, and less where each framework's recipes are ranked after it.
int plan_and_report(const SearchRun& run, const SearchTime& time, double share, PeerProcesses* peers,
                    SearchWatch* watch, Streams& streams) {
  constexpr double kShareBeforeFrameworks = 0.7;
  const std::optional<Calibration> calibration = open_calibration(run.calibration, run.topology, streams.err);
  const CostModel costs(run.topology, pointer_to(calibration), run.runtime);
  PlanRequest request = request_of(run, run.settings, costs);
  request.peers = peers;
  std::optional<StatusLine> line;
  request.status = [&](std::string_view text) {
    if (!line) line.emplace(streams);
    if (!text.empty() && line->due()) line->show(std::string(text));
    if (text.empty()) line.reset();
  };
  if (watch != nullptr && !run.log.empty()) watch->log_to(run.log);
  request.observer = watch;
  const bool compares = compares_frameworks(run) && peers == nullptr;
  const Deadline whole = time.search();
  if (compares) request.until_few = &whole;
  std::optional<PlannerAnswer> planned;
  try {
    planned = plan(request, run.algorithm, planning_time(time, compares ? kShareBeforeFrameworks : share));
  } catch (const NothingFits& none) {
    throw InputError(none.what() + hints_in_time(run, costs, none.nearest, time));
  }
  line.reset();
  if (peers != nullptr && peers->rank() > 0) return 0;
  std::vector<FrameworkRow> rows;
  if (compares && planned->recipes) {
    const Deadline until = time.search();
    const KeepTo keep(until);
    rows = framework_rows(run, *planned->recipes);
  }
  {
    const Deadline reported = time.report();
    const KeepTo keep(reported);
    take_fastest_of(rows, request, *planned);
  }
  return report_plan_found({run, calibration, costs, *planned, time}, streams, std::move(rows));
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
  Streams& heard = first ? streams : quiet;
  const Arguments unlimited = a.with("seconds", "0");
  SearchWatch watch(heard);
  const SearchRun run = search_run_of(first ? unlimited : unlimited.with("search-log", ""));
  return plan_and_report(run, SearchTime(0), 1, peers.get(), &watch, heard);
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
// time that is left. Ctrl-C is noted from the beginning by algorithms that end early when they are asked to.
int plan_alone(const Arguments& a, Streams& streams) {
  constexpr double kShareBeforeRecipes = 0.5;
  const SearchTime time(search_budget_of(a).seconds);  // reading the model and the topology takes some of it
  std::optional<SearchWatch> watch;
  if (algorithm_of(a).reports_progress) watch.emplace(streams);
  const SearchRun run = search_run_of(a);
  if (!run.model_note.empty()) streams.err << fmt::format("pipesim: {}\n", run.model_note);
  std::optional<Arguments> recipes;
  if (time.limited() && !run.by_recipes && !run.of_splits && has_recipes(run.graph))
    recipes = asked_of_recipes(a);
  SearchWatch* watching = watch ? &*watch : nullptr;
  if (!recipes) return plan_and_report(run, time, 1, nullptr, watching, streams);
  std::string why;
  try {
    return plan_and_report(run, time, kShareBeforeRecipes, nullptr, watching, streams);
  } catch (const NoPlanFound& none) {
    why = none.what();
  }
  SearchRun stand_in = search_run_of(*recipes);
  stand_in.stands_in_because =
      fmt::format("recipes stand in for {}, which has no answer", run.algorithm.name);
  streams.err << fmt::format("pipesim: {}\npipesim: {}\n", why, stand_in.stands_in_because);
  if (!watch) watch.emplace(streams);
  return plan_and_report(stand_in, time, 1, nullptr, &*watch, streams);
}

// Prints the configs that a search may give to operators.
int print_candidates(const Arguments& a, Streams& streams) {
  const SearchRun run = search_run_of(a);
  streams.out << CandidateSet(run.graph, run.topology).str();
  return 0;
}

// --moves and --candidates ask for mcmc, the only algorithm that knows them.
Arguments with_algorithm(const Arguments& a) {
  const bool of_mcmc = a.given("moves") || a.given("candidates");
  return of_mcmc && !a.given("algorithm") ? a.with_default("algorithm", "mcmc") : a;
}

int run_search(const Arguments& given, Streams& streams) {
  const Arguments a = with_algorithm(given);
  check_search_options(a);
  try {
    if (a.has("stage-costs") && !a.has("model") && !a.given("set")) return report_stage_costs(a, streams);
    if (a.given("candidates")) return print_candidates(a, streams);
    if (processes_of_launcher() == 1 || streams.caller != nullptr) return plan_alone(a, streams);
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

}  // namespace

Command search_command() {
  Command c;
  c.name = "search";
  c.summary = "find a fast parallelization of a model on a topology";
  c.description =
      "Scores the baselines, searches for a faster plan, and writes it to a file. One simulator judges every "
      "plan.\n\nThe baselines are single-device, data-parallel, model-parallel and expert. With a budget in "
      "proposals, the same seed gives the same bytes, whatever --threads says.\n\n--seconds limits "
      "everything that the command does. When the time is over, unfinished work stops and the report says "
      "so: baselines may have no score, planners give their best plan so far, and a plan with many tasks "
      "gets a short report.\n\nCtrl-C (SIGINT or SIGTERM) ends the search, not the program. The best plan so "
      "far is reported and written with exit status 0; without any plan the status is 130. A second Ctrl-C "
      "ends the program at once. A chart shows how the best time fell, over wall time, or over proposals "
      "where they alone are the budget.\n\nThe report first says why the plan is faster than the best "
      "baseline: which operators gain most, what changed for them, and where the time of an iteration goes. "
      "Tables at the end give the figures of both plans and the operators whose split changed. The time on "
      "links of an operator is summed over links; it counts its outputs, their gradients, and the gradients "
      "of its weights. Last come the operators for which one other config would help most. A tenth of the "
      "search's effort goes into finding them.\n\nPlanners of pipelines do not search, except auto. Each "
      "minimises a cost model of its own; the report prints that cost, and the simulator judges the "
      "plan.\n\nNo plan can be faster than the lower bound. With --calibration there is no bound, since "
      "measured durations may be shorter than the analytic model thinks possible.";
  c.options = model_and_topology_options();
  c.options.push_back(for_option());
  c.options.push_back(recipe_option("a recipe to begin with, for mcmc and auto"));
  for (Option& o : own_search_options()) c.options.push_back(std::move(o));
  for (Option& o : plan_options()) c.options.push_back(std::move(o));
  for (Option& o : planner_options()) c.options.push_back(std::move(o));
  c.options.push_back(calibration_option());
  c.options.push_back(runtime_option());
  for (Option& o :
       in_group(OptionGroup::Output,
                {{"output", "FILE", "", "write the plan to FILE", 'o'},
                 json_option(),
                 {.name = "search-log",
                 .argument = "FILE",
                 .default_value = "",
                 .help = "log how the best plan improved",
                 .details = "CSV, written during the search: wall time in seconds, proposals, best iteration "
                            "time in seconds, and the chain that found it. FILE is replaced."},
                 {"candidates", "", "", "print the devices and configs that are searched, and stop"}}))
    c.options.push_back(std::move(o));
  c.common = {"model",   "topology",  "batch",  "microbatches", "algorithm",
              "seconds", "proposals", "output", "json"};
  c.examples = {
      {"pipesim search --model nmt --topology p100-4x4 --algorithm mcmc --proposals 4000 -o nmt.plan.json",
       "find a plan and keep it"},
      {"pipesim search --model lenet --topology p100-4x4:1 --algorithm exhaustive", "prove the optimum"},
      {"pipesim search --model gpt:layers=6 --topology p100-4x4:1 --algorithm exhaustive --microbatches 8",
       "the best pipeline of few layers, by trying all"},
      {"pipesim search --model docs/examples/profile.txt --topology levels:4@1GB/s --algorithm pipedream "
       "--activation-transfers "
       "--microbatches 8",
       "stages of a measured profile, by PipeDream's optimizer"}};
  c.run = run_search;
  return c;
}

}  // namespace pipesim
