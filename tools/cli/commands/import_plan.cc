#include "tools/cli/commands/import_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>

#include "search/evaluator.h"
#include "sim/base/cores.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/plans/breakdown/iteration_parts.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/base/figures.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_output.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/searching/search_watch.h"
#include "tools/interop/framework/open_run.h"
#include "tools/interop/framework/recipe_changes.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/reading/read_run.h"
#include "tools/render/plans/breakdown_text.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// A plan of the run's model, with its report.
struct JudgedPlan {
  Recipe recipe;
  Plan plan;
  OperatorGraph graph;
  PlanReport report;
  [[nodiscard]] IterationParts parts() const { return iteration_parts(report); }
};

// A single change of the plan, and what it brings.
struct JudgedChange {
  std::string text;
  RatedRecipe rated;
};

// Everything that the command line asks for.
struct ImportedRun {
  const Framework& framework;
  std::string file, topology_text, output;
  Topology topology;
  FrameworkRun run;  // its model keeps what the framework keeps
  std::vector<RecipeCondition> conditions;
  double seconds = 0;  // of the search; 0: none
  bool json = false;
};

ImportedRun imported_run_of(const Arguments& a) {
  if (a.operands().size() == 1) throw UsageError("import: a plan is read from a FILE, and there is none");
  for (const char* option : {"nodes", "nvlink-domain", "virtual-devices", "device", "name"}) {
    if (a.given(option)) throw UsageError(fmt::format("import: --{} goes with topology", option));
  }
  if (!a.has("topology"))
    throw UsageError("import: --topology is missing: a plan needs the devices that it runs on");
  if (a.has("output")) require_writable(a.text("output"));
  Topology topology = topology_of(a, a.text("topology"));
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  const auto hosts = static_cast<std::int64_t>(topology.num_nodes());
  const std::string& file = a.operands()[1];
  FrameworkRun run = read_framework_run(file, devices, devices / hosts);
  const Framework& framework = framework_named(run.framework);
  ModelAsRun model = model_run_by(framework, run.model, topology.parts().kinds, run.score_dropout);
  if (model.text.find("attention_dropout=") != std::string::npos)
    std::erase_if(run.left_out,
                  [](const std::string& line) { return line.starts_with("--attention-dropout:"); });
  run.model = std::move(model.text);
  if (!model.note.empty()) run.left_out.push_back(std::move(model.note));
  if (run.launched && *run.launched != devices)
    run.left_out.push_back(
        fmt::format("--nproc-per-node: {} devices are launched, taken are the {} of topology \"{}\"",
                    *run.launched, devices, topology.name()));
  constexpr double kMostSeconds = 1e6;
  return {framework,           file,           a.text("topology"),      text_or_none(a, "output"),
          std::move(topology), std::move(run), recipe_conditions_of(a), a.number("seconds", 0, kMostSeconds),
          a.given("json")};
}

// The framework's runtime, with the dispatcher, graphs and allocator that the run asks for.
Runtime runtime_of_framework(const ImportedRun& run) {
  const Runtime usual = runtime_for_recipes(run.topology, run.framework.runtime);
  if (!usual.has_host()) return usual;
  const Runtime runtime = with_graphs(
      with_dispatcher(usual, run.run.dispatcher, run.run.dispatcher_multiprocessors), run.run.graphs);
  return run.run.expandable_segments ? with_expandable_segments(runtime) : runtime;
}

Runtime runtime_of_run(const ImportedRun& run, const Recipe& recipe) {
  const Runtime runtime = with_policies(runtime_of_framework(run), recipe);
  return with_optimizer_kernel(runtime, run.run.optimizer_kernel.value_or(runtime.optimizer_kernel));
}

// A recipe with its model and plan, not simulated yet.
struct OpenPlan {
  Recipe recipe;
  OperatorGraph graph;
  Plan plan;
};

OpenPlan open_plan(const ImportedRun& run, Recipe recipe) {
  const BatchRequest asked{.batch = run.run.samples, .microbatch = {}, .microbatches = {}};
  ModelRun sized = run_of_recipe(run.run.model, recipe.devices(), asked, recipe);
  sized.model = with_token_groups(sized.model, recipe.shape(true).sequence.token_groups);
  OperatorGraph graph = open_model(sized.model);
  Plan plan;
  plan.model = sized.model;
  plan.topology = run.topology_text;
  plan.model_fingerprint = graph.fingerprint();
  plan.topology_fingerprint = run.topology.fingerprint();
  plan.options.optimizer = run.run.optimizer;
  plan.options.gradient_type = run.run.gradient_type;
  plan.options.microbatches = sized.microbatches;
  apply_recipe(recipe, RecipeModel(graph), run.topology, plan);
  plan.runtime = runtime_of_run(run, recipe);
  return {std::move(recipe), std::move(graph), std::move(plan)};
}

JudgedPlan judged_plan(const ImportedRun& run, Recipe recipe) {
  OpenPlan open = open_plan(run, std::move(recipe));
  const CostModel costs(run.topology, nullptr, open.plan.runtime);
  Evaluator evaluator(open.graph, costs, open.plan.options);
  PlanReport report = report_plan(evaluator, evaluator.contents().bind(open.plan.strategy));
  report.part.reset();  // what it is of goes here
  open.plan.recipe = report.recipe;
  return {std::move(open.recipe), std::move(open.plan), std::move(open.graph), std::move(report)};
}

OpenRun open_run(const ImportedRun& run) {
  OpenRun open{.model = run.run.model,
               .topology = run.topology,
               .runtime = {},
               .options = {},
               .samples = run.run.samples,
               .threads = available_cores()};
  open.options.optimizer = run.run.optimizer;
  open.options.gradient_type = run.run.gradient_type;
  OpenRun ready =
      run_of_framework(run.framework, run.framework.versions().back(), std::move(open), run.conditions);
  ready.runtime = runtime_of_framework(run);
  return ready;
}

// Returns whether a time is less by more than a tenth of a percent.
bool is_much_less(Nanoseconds time, const JudgedPlan& yours) {
  constexpr double kMuch = 0.999;
  return static_cast<double>(time) < kMuch * static_cast<double>(yours.report.iteration_time);
}

// Returns the best changes that there is time for: those that fit and are faster, or that fit where the plan
// does not, the fastest first.
std::vector<JudgedChange> best_changes(const ImportedRun& run, const JudgedPlan& yours,
                                       const Deadline& whole) {
  constexpr double kShare = 0.4;
  constexpr std::size_t kTold = 3;
  const Deadline until = whole.within(kShare * run.seconds);
  const KeepTo keep(until);
  const OpenRun open = open_run(run);
  FrameworkPlan plan = framework_question(run.framework, run.framework.versions().back(), open.model,
                                          open.samples, open.options, open.topology);
  plan.recipe = yours.recipe;
  plan.layers = divide_layers(yours.recipe, plan.sizes.layers).layers;
  std::vector<JudgedChange> better;
  try {
    for (RecipeChange& change : recipe_changes(run.framework, plan, RecipeModel(yours.graph))) {
      if (std::ranges::any_of(run.conditions, [&](const auto& c) { return !c.holds(change.recipe); }))
        continue;
      try {
        RatedRecipe rated = rate_recipe(open, change.recipe);
        const bool gains = yours.report.infeasible || is_much_less(rated.evaluation.time, yours);
        if (rated.evaluation.feasible() && gains)
          better.push_back({std::move(change.text), std::move(rated)});
      } catch (const InputError&) {  // a rule that looks at operators or microbatches refuses it
      }
    }
  } catch (const OutOfTime&) {  // the others are not told
  }
  std::ranges::stable_sort(better, {}, [](const JudgedChange& c) { return c.rated.evaluation.time; });
  better.resize(std::min(better.size(), kTold));
  return better;
}

RecipeRanking ranked_for(const ImportedRun& run, const Deadline& until, SearchWatch& watch) {
  const KeepTo keep(until);
  const auto tell = told_as_search(watch.callback());
  return rank_run(open_run(run), [&](const RankingProgress& now) { return !until.passed() && tell(now); });
}

std::string iteration_text(const PlanReport& report) { return pretty(to_seconds(report.iteration_time)); }

Bytes peak_of(const PlanReport& report) {
  Bytes peak;
  for (const DeviceMemory& memory : report.memory) peak = std::max(peak, memory.peak);
  return peak;
}

// "57.1 GB on the fullest device, which fits".
std::string memory_text(const PlanReport& report) {
  return fmt::format("{} on the fullest device, {}", pretty(peak_of(report)),
                     report.infeasible ? "which does not fit: " + *report.infeasible : "which fits");
}

std::string changes_text(const JudgedPlan& yours, const std::vector<JudgedChange>& changes) {
  if (changes.empty())
    return fmt::format("\nno single change that was tried {}\n",
                       yours.report.infeasible ? "makes it fit" : "makes it faster");
  std::string text = fmt::format("\n{}\n", yours.report.infeasible ? "single changes that make it fit"
                                                                   : "the single changes that gain most");
  for (const JudgedChange& c : changes)
    text +=
        fmt::format("  {}: {}, {}, {}\n", c.text, pretty(to_seconds(c.rated.evaluation.time)),
                    change_text(yours.report.iteration_time, c.rated.evaluation.time), pretty(c.rated.peak));
  return text;
}

// "the best of 94,203 recipes that Megatron-LM runs is tp…".
std::string best_text(const ImportedRun& run, const JudgedPlan& yours, const std::optional<JudgedPlan>& best,
                      const RecipeRanking& ranking) {
  const std::string of =
      fmt::format("of {} recipes that {} runs", with_separators(ranking.recipes), run.framework.title);
  if (ranking.recipes == 0)
    return fmt::format("\nin {} s the recipes that {} runs were not counted; allow more --seconds\n",
                       run.seconds, run.framework.title);
  if (!best && ranking.proven()) return fmt::format("\nnone {} fits into memory\n", of);
  if (!best)
    return fmt::format("\nin {} s none was found that fits, {}: {} were simulated; allow more --seconds\n",
                       run.seconds, of, with_separators(ranking.simulated()));
  const std::string sure = ranking.proven() ? "proven" : fmt::format("as far as {} s went", run.seconds);
  const bool faster = best->report.iteration_time < yours.report.iteration_time;
  if (!faster && !yours.report.infeasible) return fmt::format("\nnone {} is faster, {}\n", of, sure);
  const std::string why = faster ? because(yours.parts(), best->parts()) : "which fits into memory";
  const RatedRecipe* of_set = ranking.best_of_set ? &*ranking.best_of_set : nullptr;
  const std::string found =
      of_set != nullptr ? fmt::format("one beside them takes {} than the best {}, {}, {}",
                                      change_text(of_set->evaluation.time, ranking.best()->evaluation.time),
                                      of, of_set->recipe.str(), sure)
                        : fmt::format("the best {}, {}", of, sure);
  return fmt::format("\n{}\n  {}\n  iteration  {}, {}, {}\n  memory     {}\n", found, best->recipe.str(),
                     iteration_text(best->report),
                     change_text(yours.report.iteration_time, best->report.iteration_time), why,
                     memory_text(best->report));
}

Json json_of_plan(const JudgedPlan& plan) {
  return {{"recipe", plan.recipe.str()},
          {"model", plan.graph.name()},
          {"iteration_time_s", to_seconds(plan.report.iteration_time).value},
          {"fits", !plan.report.infeasible.has_value()},
          {"peak_memory_bytes", peak_of(plan.report).value},
          {"parts", json_of(plan.parts())}};
}

Json json_of_change(const JudgedChange& c) {
  return {{"change", c.text},
          {"recipe", c.rated.recipe.str()},
          {"iteration_time_s", to_seconds(c.rated.evaluation.time).value},
          {"peak_memory_bytes", c.rated.peak.value}};
}

// "16 in 16 microbatches of 1".
std::string samples_text(const JudgedPlan& plan) {
  return batch_text(plan.graph, plan.plan.options).substr(std::string_view("batch ").size());
}

void report_run(const ImportedRun& run, const JudgedPlan& yours, std::ostream& out) {
  out << fmt::format(
      "{}: a run of {} on {} ({})\n\n  model      {}\n  recipe     {}\n  batch      {}\n"
      "  memory     {}\n  iteration  {}\n",
      run.file, run.framework.title, run.topology.name(), devices_text(run.topology), yours.graph.name(),
      yours.recipe.str(), samples_text(yours), memory_text(yours.report), iteration_text(yours.report));
  if (!run.output.empty())
    out << fmt::format("  plan       {0}; \"pipesim simulate --plan {0}\" shows it\n", run.output);
}

// Why other recipes of the run's model can't be ranked; nothing where they can.
std::optional<std::string> why_not_ranked(const ImportedRun& run) {
  try {
    (void)decoder_sizes(run.run.model);
  } catch (const InputError& error) {
    return fmt::format("no other recipes are ranked: {}", error.what());
  }
  return std::nullopt;
}

// What would be better: single changes, then the best recipe of all.
void advise(const ImportedRun& run, const JudgedPlan& yours, Streams& streams, Json& json) {
  SearchWatch watch(streams);
  const Deadline until(run.seconds, {}, watch.interruption());
  const std::vector<JudgedChange> changes = best_changes(run, yours, until);
  for (const JudgedChange& change : changes) json["changes"].push_back(json_of_change(change));
  const RecipeRanking ranking = ranked_for(run, until, watch);
  SearchOutcome told;
  told.proposals = ranking.simulated();
  watch.finish(told);
  if (ranking.recipes == 0 && ranking.proven())
    throw InputError("no recipe that " + std::string(run.framework.title) +
                     " runs is left; allowed: fewer conditions of --only and --not");
  std::optional<JudgedPlan> best;
  if (ranking.best() != nullptr) best = judged_plan(run, ranking.best()->recipe);
  if (best) json["best"] = json_of_plan(*best);
  if (best) json["because"] = because(yours.parts(), best->parts());
  json["recipes"] = ranking.recipes;
  json["proven"] = ranking.proven();
  if (!run.json) streams.out << changes_text(yours, changes) << best_text(run, yours, best, ranking);
}

}  // namespace

std::vector<Option> import_plan_options() {
  std::vector<Option> options{{.name = "topology",
                               .argument = "TOPOLOGY",
                               .default_value = "",
                               .help = "the devices that a plan runs on"},
                              memory_margin_option(),
                              {.name = "seconds",
                               .argument = "S",
                               .default_value = "60",
                               .help = "time to look for better recipes; 0: none"}};
  for (Option& o : recipe_condition_options("plan: ")) options.push_back(std::move(o));
  options.push_back(json_option());
  return options;
}

int import_plan(const Arguments& arguments, Streams& streams) {
  ImportedRun run = imported_run_of(arguments);
  if (const auto why = run.seconds > 0 ? why_not_ranked(run) : std::nullopt) {
    run.run.left_out.push_back(*why);
    run.seconds = 0;
  }
  for (const std::string& what : run.run.left_out)
    streams.err << fmt::format("pipesim: {}: {}\n", run.file, what);
  const JudgedPlan yours = judged_plan(run, run.run.recipe);
  give_plan(streams, run.output, yours.plan, yours.graph, run.topology);
  Json json{{"framework", run.framework.name},
            {"yours", json_of_plan(yours)},
            {"changes", Json::array()},
            {"best", nullptr},
            {"because", nullptr},
            {"recipes", nullptr},
            {"proven", nullptr},
            {"left_out", run.run.left_out}};
  if (!run.json) report_run(run, yours, streams.out);
  if (run.seconds > 0) advise(run, yours, streams, json);
  if (run.json) give_document(streams, json);
  if (!yours.report.infeasible) return 0;
  streams.err << fmt::format("pipesim: {}: the plan does not fit: {}\n", run.file, *yours.report.infeasible);
  return 1;
}

}  // namespace pipesim
