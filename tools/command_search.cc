#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/baselines/baselines.h"
#include "search/exhaustive/exhaustive.h"
#include "search/lower_bound/lower_bound.h"
#include "search/mcmc.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/calibration_use.h"
#include "tools/commands.h"
#include "tools/inputs.h"
#include "tools/plan_report.h"
#include "tools/planner_search.h"
#include "tools/planners/planner.h"
#include "tools/run_settings.h"
#include "tools/search_chart.h"
#include "tools/search_checkpoints.h"
#include "tools/search_watch.h"
#include "tools/why_plan.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

struct SearchRun {
  OperatorGraph graph;
  Topology topology;
  PlanOptions options;
  SearchBudget budget;
  std::uint64_t seed;
  int threads, chains;
  bool seed_given, chains_given;
  bool flexflow_moves;
  std::string algorithm;
  std::string profile_note;        // "": none
  std::string checkpoint, resume;  // files; "": none
  double checkpoint_every;         // seconds
};

std::string text_or_empty(const Arguments& a, const std::string& option) {
  return a.has(option) ? a.text(option) : "";
}

// What only chains can do is refused elsewhere.
void check_checkpoints(const Arguments& a) {
  if (a.given("checkpoint-every") && !a.has("checkpoint"))
    throw UsageError("search: --checkpoint-every needs --checkpoint FILE");
  const bool may = a.text("algorithm") == "mcmc" || a.text("algorithm") == "auto";
  for (const char* option : {"checkpoint", "resume"}) {
    if (a.has(option) && !may)
      throw UsageError(fmt::format("search: --{} needs --algorithm mcmc or auto", option));
  }
}

int chains_of(const Arguments& a) {
  const bool flexflow = a.text("moves") == "flexflow";
  const auto chains = static_cast<int>(a.integer("chains", 1, 1024));
  if (flexflow && a.given("chains") && chains != 1)
    throw UsageError("search: --moves flexflow is one chain, --chains asks for more");
  return flexflow ? 1 : chains;
}

std::string planner_names() {
  std::vector<std::string> names;
  for (const Planner& planner : planners())
    names.push_back(fmt::format("{} ({})", planner.name, planner.summary));
  return fmt::format("{}", fmt::join(names, ", "));
}

// With all options that go with it or not.
void check_algorithm(const Arguments& a) {
  std::vector<std::string> algorithms{"mcmc", "exhaustive"};
  for (const Planner& planner : planners()) algorithms.emplace_back(planner.name);
  for (const std::string_view name : baseline_names()) algorithms.emplace_back(name);
  if (a.choice("algorithm", algorithms) == "exhaustive" && !planner_of(a) &&
      a.choice("recompute", recompute_names()) != "none")
    throw UsageError("search: --algorithm exhaustive and --recompute exclude each other without stages");
  check_checkpoints(a);
  check_planner_options(a);
}

SearchRun search_run_of(const Arguments& a) {
  OperatorGraph graph = open_model(model_run_of(a).model);
  PlanOptions options = plan_options_of(a);
  require_recompute(graph, options.recompute);
  return {std::move(graph),
          topology_of(a),
          std::move(options),
          search_budget_of(a),
          static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX)),
          static_cast<int>(a.integer("threads", 1, 1024)),
          chains_of(a),
          a.given("seed"),
          a.given("chains"),
          a.choice("moves", {"all", "flexflow"}) == "flexflow",
          a.text("algorithm"),
          profile_note_of(a),
          text_or_empty(a, "checkpoint"),
          text_or_empty(a, "resume"),
          a.number("checkpoint-every", 0, 1e6)};
}

std::vector<SearchStart> starts_of(const std::vector<Baseline>& baselines, bool flexflow_moves) {
  std::vector<SearchStart> starts;
  for (const Baseline& b : baselines) {
    if (b.scored) starts.push_back({b.name, b.scored->strategy});
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

// The seed and chains of a run that goes on are those of its checkpoint.
SearchOutcome search(SearchRun& run, const CostModel& costs, const CandidateSet& candidates,
                     const std::vector<Baseline>& baselines, const ProgressCallback& progress) {
  for (const Baseline& b : baselines) {
    if (b.name == run.algorithm) return outcome_of(b);
  }
  const std::vector<SearchStart> starts = starts_of(baselines, run.flexflow_moves);
  SearchOutcome outcome;
  if (run.algorithm == "exhaustive") {
    outcome = exhaustive(run.graph, costs, run.options, candidates, starts, run.budget, progress);
  } else {
    McmcOptions options;
    options.budget = run.budget;
    options.seed = run.seed;
    options.threads = run.threads;
    options.chains = run.chains;
    options.flexflow_moves = run.flexflow_moves;
    SearchCheckpoints checkpoints(run.checkpoint, run.checkpoint_every,
                                  {run.graph, run.topology, run.options, baselines, run.flexflow_moves});
    if (!run.resume.empty()) {
      options.resume = checkpoints.load(run.resume, candidates, starts);
      take_over(*options.resume, run);
    }
    options.keep = checkpoints.keeper();
    outcome = mcmc(run.graph, costs, run.options, candidates, starts, options, progress);
  }
  const Baseline* baseline = fastest_baseline(baselines);
  if (baseline && (!outcome.best || baseline->scored->evaluation.time <= outcome.best->evaluation.time)) {
    outcome.best = baseline->scored;
    outcome.found_by = baseline->name;
  }
  return outcome;
}

// Exit status when no plan was found; throws unless there was not enough time.
int refuse(const SearchRun& run, const std::vector<Baseline>& baselines, bool interrupted,
           std::ostream& err) {
  const Baseline* b = nearest_baseline(baselines);
  const std::string nearest =
      b ? fmt::format("; the nearest baseline is {} ({})", b->name, b->infeasible) : "";
  const MemoryMargin& margin = run.topology.memory_margin();
  const std::string text =
      fmt::format("no plan for model \"{}\" that fits the memory of topology \"{}\"{} was found{}",
                  run.graph.name(), run.topology.name(),
                  margin.is_none() ? "" : fmt::format(" with a margin of {}", margin.str()), nearest);
  if (!interrupted) throw InputError(text);
  err << fmt::format("pipesim: {}\n", text);
  return kInterruptedStatus;
}

double rate(const SearchOutcome& outcome) {
  return outcome.seconds > 0 ? static_cast<double>(outcome.proposals) / outcome.seconds : 0;
}

// How good the figures of the best plan are.
struct Certainty {
  std::optional<Nanoseconds> bound;   // no plan is faster; holds for analytic durations only
  std::optional<CalibrationUse> use;  // with a calibration
};

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

std::string json_of(const SearchRun& run, const PlanReport& report, const std::vector<Baseline>& baselines,
                    const SearchOutcome& outcome, const Certainty& certainty, const WhyPlan& why) {
  Json json = Json::parse(to_json(report, run.topology));
  json["model"] = run.graph.name();
  json["topology"] = run.topology.name();
  json["seed"] = run.seed;
  json["baselines"] = Json::parse(baselines_json(baselines));
  json["best"] = outcome.found_by;
  if (!run.profile_note.empty()) json["profile_note"] = run.profile_note;
  json["proven_optimal"] = outcome.proven;
  if (certainty.bound) json["lower_bound_s"] = to_seconds(*certainty.bound).value;
  if (certainty.use) json["calibration"] = Json::parse(to_json(*certainty.use));
  json["search"] = {{"algorithm", run.algorithm},
                    {"proposals", outcome.proposals},
                    {"accepted", outcome.accepted},
                    {"proposals_per_second", rate(outcome)},
                    {"wall_time_s", outcome.seconds}};
  json["history"] = history_json(outcome);
  json.update(Json::parse(to_json(why)));
  return json.dump(2) + "\n";
}

std::string comparison(Nanoseconds time, const std::vector<Baseline>& baselines) {
  const auto it = std::find_if(baselines.begin(), baselines.end(),
                               [](const Baseline& b) { return b.name == "data-parallel"; });
  if (it == baselines.end() || !it->infeasible.empty()) return "";
  return fmt::format(", {:.2f} times as fast as data-parallel",
                     static_cast<double>(it->scored->evaluation.time) / static_cast<double>(time));
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

std::string text_of(const SearchRun& run, const PlanReport& report, const std::vector<Baseline>& baselines,
                    const SearchOutcome& outcome, const Certainty& certainty, const std::string& configs,
                    const WhyPlan& why) {
  std::string text = fmt::format("{} on {} ({}), {}, seed {}\n\n", run.graph.name(), run.topology.name(),
                                 devices_text(run.topology), batch_text(run.graph, run.options), run.seed);
  if (!run.profile_note.empty()) text += fmt::format("  {}\n\n", run.profile_note);
  text += baselines_table(baselines, samples_per_iteration(run.graph, run.options));
  text += fmt::format("\nbest plan: {}{}{}\n", outcome.found_by, comparison(report.iteration_time, baselines),
                      outcome.proven ? ", proven best of the candidate set" : "");
  text += to_text(report, run.topology);
  if (certainty.bound) {
    const auto bound = static_cast<double>(std::max<Nanoseconds>(1, *certainty.bound));
    text +=
        fmt::format("  {:13}  {}, so at most {:.2f} times faster is possible\n", "lower bound",
                    pretty(to_seconds(*certainty.bound)), static_cast<double>(report.iteration_time) / bound);
  }
  if (certainty.use) text += durations_line(*certainty.use);
  if (outcome.proposals > 0) {
    text += fmt::format("  {:13}  {} proposals, {} accepted, {:.0f} a second, {:.1f} s\n", "search",
                        outcome.proposals, outcome.accepted, rate(outcome), outcome.seconds);
  }
  return text + chart_of(run, baselines, outcome, certainty) + "\n" + configs + "\n" + to_text(why);
}

int run_search(const Arguments& arguments, Streams& streams) {
  check_algorithm(arguments);
  if (planner_of(arguments)) return run_planner(arguments, streams);
  SearchRun run = search_run_of(arguments);
  for (const char* file : {"output", "search-log", "checkpoint"}) {
    if (arguments.has(file)) require_writable(arguments.text(file));
  }
  const CandidateSet candidates(run.graph, run.topology);
  if (arguments.given("candidates")) {
    streams.out << candidates.str();
    return 0;
  }
  require_room(run.graph, run.topology, run.options);
  const std::optional<Calibration> calibration = open_calibration(arguments, run.topology, streams.err);
  const CostModel costs(run.topology, pointer_to(calibration));
  Evaluator evaluator(run.graph, costs, run.options);
  const std::vector<Baseline> baselines = score_baselines(evaluator);
  Certainty certainty;
  if (!calibration) certainty.bound = lower_bound(run.graph, costs, run.options);
  SearchWatch watch(streams.err, run.budget, certainty.bound,
                    arguments.has("search-log") ? arguments.text("search-log") : "");
  const SearchOutcome outcome = search(run, costs, candidates, baselines, watch.callback());
  watch.finish(outcome);
  if (!outcome.best) return refuse(run, baselines, watch.interrupted(), streams.err);

  const BoundStrategy strategy = evaluator.builder().bind(outcome.best->strategy);
  const PlanReport report = report_plan(evaluator, strategy);
  if (calibration) certainty.use = calibration_use(evaluator, strategy);
  if (arguments.has("output")) {
    const Plan plan{model_run_of(arguments).model,
                    arguments.text("topology"),
                    run.graph.fingerprint(),
                    run.topology.fingerprint(),
                    run.options,
                    outcome.found_by,
                    run.seed,
                    outcome.best->strategy};
    write_file(arguments.text("output"), to_json(plan, run.graph, run.topology));
  }
  const WhyPlan why = why_plan(evaluator, candidates, baselines, outcome, try_budget(run.budget, outcome));
  constexpr std::size_t kConfigs = 12;
  streams.out << (arguments.given("json")
                      ? json_of(run, report, baselines, outcome, certainty, why)
                      : text_of(run, report, baselines, outcome, certainty,
                                configs_text(run.graph, strategy, kConfigs, std::nullopt), why));
  return 0;
}

constexpr const char* kSearchLogHelp =
    "write to FILE, while searching, how the best plan improved: CSV with wall time in seconds, proposals, "
    "the "
    "best iteration time in seconds and the chain that found it; replaces FILE";

constexpr const char* kCheckpointHelp =
    "write to FILE, now and then and at the end, all that the search needs to go on from there; replaces "
    "FILE at once, so that there always is a whole one";
constexpr const char* kResumeHelp =
    "go on from a checkpoint of the same search. Budgets count from its beginning; seed and chains are the "
    "checkpoint's, and others are refused. With a budget in proposals the result is the same bytes as "
    "without the interruption. What algorithms of auto have found is not looked for again: with a larger "
    "budget auto's plan may be another than that of one long run, since its search over splits, once done, "
    "keeps "
    "the share of the smaller budget";

}  // namespace

Command search_command() {
  Command c;
  c.name = "search";
  c.summary = "find a fast parallelization of a model on a topology";
  c.description =
      "Scores the baselines (single-device, data-parallel, model-parallel, expert), then searches for a "
      "faster plan and "
      "writes it to a file. Every plan is judged by the same simulator. With a budget in proposals the same "
      "seed gives "
      "the same bytes, whatever --threads says.\n\n"
      "Ctrl-C (SIGINT, or SIGTERM) ends a search, not the program: the best plan so far is reported and "
      "written, and the exit status is 0, or 130 when no plan was found yet. A second one ends the program "
      "at "
      "once. A chart shows how the best time fell: over wall time, or over proposals when they alone are the "
      "budget.\n\n"
      "The report ends with what the plan does otherwise than the best baseline: figures of both, and which "
      "operators changed their split. An operator's time on links, summed over links, is that of its "
      "outputs, "
      "of their gradients and of its weights' gradients. Then come the operators that one other config would "
      "help most, as far as a tenth of the search's effort can tell.\n\n"
      "Planners of pipelines, but for auto, do not search: they minimise a model of their own, whose value "
      "is printed, and "
      "the "
      "simulator judges the plan.\n\n"
      "The lower bound holds for every plan: no plan can be faster. With --calibration there is none: what "
      "was "
      "measured may be faster than the analytic model thinks possible.";
  c.options = model_and_topology_options();
  c.options.push_back(
      {"algorithm", "NAME", "mcmc",
       "mcmc, exhaustive (small cases: proves the optimum; of pipelines where --stages, --schedule, "
       "--layers or --microbatches is given), the name of a baseline, or a "
       "planner of pipelines: " +
           planner_names()});
  c.options.push_back({"seconds", "N", "30",
                       "stop after this long; not used when only --proposals is given, nor by exhaustive of "
                       "pipelines unless it is "
                       "given"});
  c.options.push_back(
      {"proposals", "N", "", "stop after this many proposals, or simulated pipelines of exhaustive"});
  c.options.push_back({"seed", "N", "1", "of all random choices"});
  c.options.push_back({"threads", "N", "1", "threads that chains run on; the plan does not depend on it"});
  c.options.push_back({"chains", "N", "8", "Markov chains, each at another temperature"});
  c.options.push_back(
      {"moves", "NAME", "all",
       "all, or flexflow: one chain from data parallelism that gives one operator any config, for "
       "comparison"});
  c.options.push_back({"checkpoint", "FILE", "", kCheckpointHelp});
  c.options.push_back(
      {"checkpoint-every", "SECONDS", "3", "time between checkpoints; 0: as often as can be"});
  c.options.push_back({"resume", "FILE", "", kResumeHelp});
  for (Option& o : plan_options()) c.options.push_back(std::move(o));
  for (Option& o : planner_options()) c.options.push_back(std::move(o));
  c.options.push_back(calibration_option());
  c.options.push_back({"output", "FILE", "", "write the plan to FILE", 'o'});
  c.options.push_back({"search-log", "FILE", "", kSearchLogHelp});
  c.options.push_back(
      {"candidates", "", "", "print the device lists and the number of configs that are searched, and stop"});
  c.options.push_back({"json", "", "", "print one JSON object instead of text"});
  c.examples = {
      {"pipesim search --model nmt --topology p100-4x4 -o plan.json",
       "find a plan in 30 seconds and keep it"},
      {"pipesim search --model lenet --topology p100-4x4:1 --algorithm exhaustive", "prove the optimum"},
      {"pipesim search --model gpt:layers=6 --topology p100-4x4:1 --algorithm exhaustive --microbatches 8",
       "the best pipeline of few layers, by trying all"},
      {"pipesim search --model vgg16.txt --topology levels:4@1GB/s --algorithm pipedream "
       "--activation-transfers "
       "--microbatches 8",
       "stages of a measured profile, by PipeDream's optimizer"}};
  c.run = run_search;
  return c;
}

}  // namespace pipesim
