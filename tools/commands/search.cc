#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/baselines/baselines.h"
#include "search/exhaustive/exhaustive.h"
#include "search/lower_bound/lower_bound.h"
#include "search/mcmc/mcmc.h"
#include "search/search_json.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/commands/options/framework_options.h"
#include "tools/commands/options/plan_output.h"
#include "tools/commands/options/planner_options.h"
#include "tools/commands/options/problem_options.h"
#include "tools/commands/options/search_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/commands/planning/planner_search.h"
#include "tools/commands/search_report.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/prediction_interval.h"
#include "tools/reports/report_in_time.h"
#include "tools/searching/hints.h"
#include "tools/searching/search_checkpoints.h"
#include "tools/searching/search_time.h"
#include "tools/searching/search_watch.h"

namespace pipesim {
namespace {

constexpr double kShortestSearch = 1e-6;  // of a budget in seconds, where 0 is none

int chains_of(const Arguments& a) {
  const bool flexflow = a.text("moves") == "flexflow";
  const auto chains = static_cast<int>(a.integer("chains", 1, 1024));
  if (flexflow && a.given("chains") && chains != 1)
    throw UsageError("search: --moves flexflow is one chain, --chains asks for more");
  return flexflow ? 1 : chains;
}

// Returns the recipe to begin with. It must have no pipeline, since a search over splits has no stages.
std::optional<Recipe> start_of(const Arguments& a) {
  if (!a.has("recipe")) return std::nullopt;
  Recipe recipe = recipe_of(a);
  if (algorithm_of(a).splits != Algorithm::Splits::RunsChains || recipe.pipeline > 1)
    throw UsageError(fmt::format(
        "search: --recipe with {} needs --algorithm auto",
        recipe.pipeline > 1 ? fmt::format("pp{}", recipe.pipeline) : "--algorithm " + a.text("algorithm")));
  return recipe;
}

SearchRun search_run_of(const Arguments& a) {
  const Algorithm& algorithm = algorithm_of(a);
  std::optional<Recipe> recipe = start_of(a);
  if (const Runtime runtime = runtime_of(a);
      algorithm.splits == Algorithm::Splits::TriesAll && runtime != Runtime())
    throw UsageError(
        fmt::format("search: --runtime {} with --algorithm exhaustive, allowed: pipesim, other algorithms",
                    runtime.name));
  SearchRun run{problem_of(a, algorithm, recipe), algorithm};
  run.recipe = std::move(recipe);
  run.budget = search_budget_of(a);
  run.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  run.threads = threads_of(a);
  run.chains = chains_of(a);
  run.seed_given = a.given("seed");
  run.chains_given = a.given("chains");
  run.flexflow_moves = a.choice("moves", {"all", "flexflow"}) == "flexflow";
  run.output = text_or_none(a, "output");
  run.log = text_or_none(a, "search-log");
  run.checkpoint = text_or_none(a, "checkpoint");
  run.resume = text_or_none(a, "resume");
  run.checkpoint_every = a.number("checkpoint-every", 0, 1e6);
  run.candidates = a.given("candidates");
  run.json = a.given("json");
  return run;
}

std::vector<SearchStart> starts_of(const std::vector<Baseline>& baselines, bool flexflow_moves) {
  std::vector<SearchStart> starts;
  for (const Baseline& b : baselines) {
    if (b.scored) starts.push_back({b.name, b.scored->strategy, b.scored->evaluation});
  }
  const auto is_first = [](const SearchStart& s) { return s.name == "data-parallel"; };
  if (flexflow_moves && std::ranges::any_of(starts, is_first)) std::erase_if(starts, std::not_fn(is_first));
  return starts;
}

SearchOutcome outcome_of(const Baseline& baseline) {
  SearchOutcome outcome;
  if (!baseline.infeasible.empty())
    throw InputError(fmt::format("{}: {}", baseline.name, baseline.infeasible));
  outcome.best = baseline.scored;
  outcome.found_by = baseline.name;
  return outcome;
}

void take_over(const SearchState& state, SearchRun& run) {
  if (run.seed_given) require_choice(run.resume, "seed", run.seed, state.seed);
  if (run.chains_given)
    require_choice(run.resume, "chains", static_cast<std::uint64_t>(run.chains), state.chains.size());
  run.seed = state.seed;
  run.chains = static_cast<int>(state.chains.size());
}

// Takes the fastest baseline as the result where it fits and nothing faster was found.
void prefer_baseline(const std::vector<Baseline>& baselines, SearchOutcome& outcome) {
  const Baseline* baseline = fastest_baseline(baselines);
  if (baseline && (!outcome.best || baseline->scored->evaluation.time <= outcome.best->evaluation.time)) {
    outcome.best = baseline->scored;
    outcome.found_by = baseline->name;
  }
}

// Checkpoints number configs of the starts, too.
void require_all_scored(const std::vector<Baseline>& baselines, const std::string& file) {
  for (const Baseline& b : baselines) {
    if (!b.scored)
      throw InputError(
          fmt::format("{}: going on needs all baselines, and there was no time to score {}; allow "
                      "more --seconds",
                      file, b.name));
  }
}

// The seed and chains of a run that goes on are those of its checkpoint.
SearchOutcome search(SearchRun& run, const CostModel& costs, const CandidateSet& candidates,
                     const std::vector<Baseline>& baselines, const SearchTime& time, SearchWatch& watch,
                     const std::optional<Nanoseconds>& lower_bound) {
  for (const Baseline& b : baselines) {
    if (b.name == run.algorithm.name) return outcome_of(b);
  }
  const std::vector<SearchStart> starts = starts_of(baselines, run.flexflow_moves);
  SearchOutcome outcome;
  const Deadline until = time.search();
  if (starts.empty() || until.passed()) {
    prefer_baseline(baselines, outcome);
    return outcome;
  }
  const KeepTo keep(until);
  SearchBudget budget = run.budget;
  if (time.limited()) budget.seconds = std::max(kShortestSearch, until.left());
  watch.expect(budget, lower_bound);
  const ProgressCallback progress = watch.callback();
  if (run.algorithm.splits == Algorithm::Splits::TriesAll) {
    outcome = exhaustive(run.graph, costs, run.options, candidates, starts, budget, progress);
  } else {
    McmcOptions options;
    options.budget = budget;
    options.seed = run.seed;
    options.threads = run.threads;
    options.chains = run.chains;
    options.flexflow_moves = run.flexflow_moves;
    SearchCheckpoints checkpoints(run.checkpoint, run.checkpoint_every,
                                  {run.graph, run.topology, run.options, baselines, run.flexflow_moves});
    if (!run.resume.empty()) {
      require_all_scored(baselines, run.resume);
      options.resume = checkpoints.load(run.resume, candidates, starts);
      if (time.limited()) options.budget.seconds += options.resume->seconds;
      take_over(*options.resume, run);
    }
    options.keep = checkpoints.keeper();
    outcome = mcmc(run.graph, costs, run.options, candidates, starts, options, progress);
  }
  prefer_baseline(baselines, outcome);
  return outcome;
}

[[noreturn]] void refuse_time(double seconds) {
  throw InputError(fmt::format(
      "no plan was scored in the {} s of --seconds; allow more, or ask for --proposals without --seconds",
      seconds));
}

// Exit status when no plan was found; throws unless there was not enough time.
int refuse(const SearchRun& run, const std::vector<Baseline>& baselines, bool interrupted,
           const std::string& hints, std::ostream& err) {
  const Baseline* b = nearest_baseline(baselines);
  if (!interrupted && !b) refuse_time(run.budget.seconds);
  const std::string nearest =
      b ? fmt::format("; the nearest baseline is {} ({})", b->name, b->infeasible) : "";
  const bool late = std::ranges::any_of(baselines, [](const Baseline& x) { return !x.scored; });
  const std::string time = late && !interrupted ? fmt::format(
                                                      "; not all baselines were scored in the {} s of "
                                                      "--seconds, so more may help",
                                                      run.budget.seconds)
                                                : "";
  const MemoryMargin& margin = run.topology.memory_margin();
  const std::string text = fmt::format(
      "no plan for model \"{}\" that fits the memory of topology \"{}\"{} was found{}{}", run.graph.name(),
      run.topology.name(), margin.is_none() ? "" : fmt::format(" with a margin of {}", margin.str()), nearest,
      time + hints);
  if (!interrupted) throw InputError(text);
  err << fmt::format("pipesim: {}\n", text);
  return kInterruptedStatus;
}

// Adds the lower bound, or notes that there was no time for it.
void add_lower_bound(const SearchRun& run, const CostModel& costs, const SearchTime& time,
                     Certainty& certainty) {
  const Deadline until = time.lower_bound();
  const KeepTo keep(until);
  try {
    certainty.bound = lower_bound(run.graph, costs, run.options);
  } catch (const OutOfTime&) {
    certainty.bound_is_late = true;
  }
}

// Scores the baselines. How long that took tells how long a report may take.
std::vector<Baseline> score_in_time(Evaluator& evaluator, SearchTime& time) {
  constexpr double kReports = 2;
  const Deadline until = time.baselines();
  const KeepTo keep(until);
  const double before = until.left();
  std::vector<Baseline> baselines = score_baselines(evaluator);
  if (time.limited()) time.keep_for_report(kReports * (before - until.left()));
  return baselines;
}

// What may help where nothing fits; "" where there is no time to find out.
std::string hints_in_time(const SearchRun& run, Evaluator& evaluator,
                          const std::vector<Baseline>& baselines) {
  const Baseline* nearest = nearest_baseline(baselines);
  if (!nearest) return "";
  try {
    return hints_text(hints_to_fit(evaluator, *nearest, run.model, &run.algorithm));
  } catch (const OutOfTime&) {
    return "";
  }
}

Baseline scored_recipe(const Recipe& recipe, const SearchRun& run, Evaluator& evaluator) {
  Strategy strategy = expand_recipe(recipe, RecipeModel(run.graph), run.topology).strategy;
  std::vector<DeviceMemory> peaks;
  const Evaluation evaluation = evaluator.score(evaluator.contents().bind(strategy), peaks);
  return {recipe.str(), ScoredStrategy{std::move(strategy), evaluation},
          memory_shortage(peaks, run.topology).value_or("")};
}

int search_and_report(Streams& streams, SearchRun& run, SearchWatch& watch, SearchTime& time) {
  const Deadline until = time.search();
  std::optional<KeepTo> keep(std::in_place, until);
  const CandidateSet candidates(run.graph, run.topology);
  if (run.candidates) {
    streams.out << candidates.str();
    return 0;
  }
  require_room(run.graph, run.topology, run.options);
  const std::optional<Calibration> calibration = open_calibration(run.calibration, run.topology, streams.err);
  const CostModel costs(run.topology, pointer_to(calibration), run.runtime);
  Evaluator evaluator(run.graph, costs, run.options);
  std::vector<Baseline> baselines = score_in_time(evaluator, time);
  if (run.recipe) baselines.push_back(scored_recipe(*run.recipe, run, evaluator));
  Certainty certainty;
  if (!costs.calibrated()) add_lower_bound(run, costs, time, certainty);
  if (!run.log.empty()) watch.log_to(run.log);
  const SearchOutcome outcome = search(run, costs, candidates, baselines, time, watch, certainty.bound);
  static_cast<void>(watch.stop_requested());
  watch.finish(outcome);
  const Deadline reported = time.report();
  keep.emplace(reported);
  if (!outcome.best) {
    const std::string hints = watch.interrupted() ? "" : hints_in_time(run, evaluator, baselines);
    return refuse(run, baselines, watch.interrupted(), hints, streams.err);
  }
  const BoundStrategy strategy = evaluator.contents().bind(outcome.best->strategy);
  const PlanReport report = report_in_time(evaluator, strategy, outcome.best->evaluation);
  if (calibration && calibration->has_durations() && report.in_full &&
      may_report_in_full(evaluator, strategy))
    certainty.use = calibration_use(evaluator, strategy);
  Plan plan{
      run.model.model,  run.topology_text, run.graph.fingerprint(), run.topology.fingerprint(), run.options,
      outcome.found_by, run.seed,          outcome.best->strategy};
  plan.runtime = run.runtime;
  plan.recipe = report.recipe;
  give_plan(streams, run.output, plan, run.graph, run.topology);
  certainty.reliance = reliance_of(run.graph, run.topology, calibration, plan, report.iteration_time,
                                   !run.profile_note.empty());
  const WhyPlan why =
      why_plan(evaluator, candidates, baselines, outcome, time.shortened(try_budget(run.budget, outcome)));
  keep.reset();
  constexpr std::size_t kConfigs = 12;
  if (run.json) {
    give_document(streams, json_of(run, report, baselines, outcome, certainty, why));
  } else {
    streams.out << text_of(run, report, baselines, outcome, certainty,
                           configs_text(run.graph, strategy, kConfigs, std::nullopt), why);
  }
  return 0;
}

// --moves and --candidates ask for mcmc, the only algorithm that knows them.
Arguments with_algorithm(const Arguments& a) {
  const bool of_mcmc = a.given("moves") || a.given("candidates");
  return of_mcmc && !a.given("algorithm") ? a.with_default("algorithm", "mcmc") : a;
}

int run_search(const Arguments& given, Streams& streams) {
  const Arguments arguments = with_algorithm(given);
  check_search_options(arguments);
  if (planner_of(arguments)) return run_planner(arguments, streams);
  const SearchBudget budget = search_budget_of(arguments);
  SearchWatch watch(streams, budget, std::nullopt, "");
  SearchTime time(budget.seconds, watch.interruption());
  SearchRun run = search_run_of(arguments);
  for (const std::string& file : {run.output, run.log, run.checkpoint}) {
    if (!file.empty()) require_writable(file);
  }
  try {
    return search_and_report(streams, run, watch, time);
  } catch (const OutOfTime&) {
    if (!watch.stop_requested()) refuse_time(budget.seconds);
    watch.finish({});
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
