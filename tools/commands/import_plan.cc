#include "tools/commands/import_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>

#include "search/evaluator.h"
#include "search/recipe_planner/rank_recipes.h"
#include "sim/base/cores.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/commands/options/plan_output.h"
#include "tools/commands/options/shared_options.h"
#include "tools/frameworks/megatron_run.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"
#include "tools/reports/breakdown/iteration_parts.h"
#include "tools/reports/plan_report.h"
#include "tools/searching/search_watch.h"

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

// Everything that the command line asks for.
struct ImportedRun {
  std::string file, topology_text, output;
  Topology topology;
  MegatronRun run;
  double seconds = 0;  // of the search; 0: none
  bool json = false;
};

ImportedRun imported_run_of(const Arguments& a) {
  if (a.operands().size() == 1) throw UsageError("import: a plan is read from a FILE, and there is none");
  for (const char* option : {"nodes", "virtual-devices", "device", "name"}) {
    if (a.given(option)) throw UsageError(fmt::format("import: --{} goes with topology", option));
  }
  if (!a.has("topology"))
    throw UsageError("import: --topology is missing: a plan needs the devices that it runs on");
  if (a.has("output")) require_writable(a.text("output"));
  Topology topology = topology_of(a, a.text("topology"));
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  const auto hosts = static_cast<std::int64_t>(topology.num_nodes());
  const MegatronFile file = MegatronFile::load(a.operands()[1], {devices, devices / hosts});
  MegatronRun run = megatron_run(file, devices);
  if (const auto launched = devices_of_launch(file); launched && *launched != devices)
    run.left_out.push_back(
        fmt::format("--nproc-per-node: {} devices are launched, taken are the {} of topology \"{}\"",
                    *launched, devices, topology.name()));
  constexpr double kMostSeconds = 1e6;
  return {file.source(),       a.text("topology"), text_or_none(a, "output"),
          std::move(topology), std::move(run),     a.number("seconds", 0, kMostSeconds),
          a.given("json")};
}

JudgedPlan judged_plan(const ImportedRun& run, Recipe recipe) {
  const BatchRequest asked{.batch = run.run.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun sized = run_of_recipe(run.run.model, recipe.devices(), asked, recipe);
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
  plan.runtime = with_policies(runtime_for_recipes(run.topology), recipe);
  const CostModel costs(run.topology, nullptr, plan.runtime);
  Evaluator evaluator(graph, costs, plan.options);
  PlanReport report = report_plan(evaluator, evaluator.contents().bind(plan.strategy));
  plan.recipe = report.recipe;
  return {recipe, std::move(plan), std::move(graph), std::move(report)};
}

RecipeRanking ranked_for(const ImportedRun& run, const JudgedPlan& yours, SearchWatch& watch) {
  const RecipeModel model(yours.graph);
  const CostModel costs(run.topology, nullptr, yours.plan.runtime);
  PlanOptions options;
  options.optimizer = run.run.optimizer;
  options.gradient_type = run.run.gradient_type;
  const std::string& text = run.run.model;
  const OperatorGraph whole = open_model(text);
  const auto graph_of = [&](std::int64_t batch, std::int64_t parts) {
    return open_model(with_batch(with_zigzag(text, whole, parts), batch));
  };
  const RankingRequest request{model,          costs,    options, run.run.samples,
                               RecipeFilter(), graph_of, {},      available_cores()};
  const Deadline until(run.seconds, {}, watch.interruption());
  const KeepTo keep(until);
  const auto tell = told_as_search(watch.callback());
  return rank_recipes(request, [&](const RankingProgress& now) { return !until.passed() && tell(now); });
}

std::string fits_in_words(const PlanReport& report) {
  return report.infeasible ? fmt::format("does not fit: {}", *report.infeasible) : "fits into memory";
}

std::string iteration_text(const PlanReport& report) { return pretty(to_seconds(report.iteration_time)); }

// "yours 71.2 s, best 62.4 s, because …".
std::string verdict(const JudgedPlan& yours, const std::optional<JudgedPlan>& best,
                    const RecipeRanking& ranking) {
  const std::string of = fmt::format("of {} recipes", with_separators(ranking.recipes));
  const std::string far = ranking.proven() ? "" : ", as far as --seconds went";
  if (!best)
    return fmt::format("yours {}; none {} fits into memory{}\n", iteration_text(yours.report), of, far);
  const bool faster = best->report.iteration_time < yours.report.iteration_time;
  if (!faster && !yours.report.infeasible)
    return fmt::format("yours {}; none {} is faster{}\n", iteration_text(yours.report), of, far);
  const std::string why = faster ? because(yours.parts(), best->parts()) : "which fits into memory";
  return fmt::format("yours {}, best {}, {}\n  the best {} is {}{}\n", iteration_text(yours.report),
                     iteration_text(best->report), why, of, best->recipe.str(), far);
}

Json json_of_plan(const JudgedPlan& plan) {
  return {{"recipe", plan.recipe.str()},
          {"model", plan.graph.name()},
          {"iteration_time_s", to_seconds(plan.report.iteration_time).value},
          {"fits", !plan.report.infeasible.has_value()},
          {"parts", json_of(plan.parts())}};
}

// "16 in 16 microbatches of 1".
std::string samples_text(const JudgedPlan& plan) {
  return batch_text(plan.graph, plan.plan.options).substr(std::string_view("batch ").size());
}

void report_run(const ImportedRun& run, const JudgedPlan& yours, std::ostream& out) {
  out << fmt::format(
      "{}: a run of Megatron-LM on {} ({})\n\n  model      {}\n  recipe     {}\n  batch      {}\n"
      "  iteration  {}, {}\n",
      run.file, run.topology.name(), devices_text(run.topology), yours.graph.name(), yours.recipe.str(),
      samples_text(yours), iteration_text(yours.report), fits_in_words(yours.report));
  if (!run.output.empty())
    out << fmt::format("  plan       {0}; \"pipesim simulate --plan {0}\" shows it\n", run.output);
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
                               .help = "time to look for the best recipe; 0: none"},
                              json_option()};
  return options;
}

int import_plan(const Arguments& arguments, Streams& streams) {
  const ImportedRun run = imported_run_of(arguments);
  for (const std::string& what : run.run.left_out)
    streams.err << fmt::format("pipesim: {}: {}\n", run.file, what);
  const JudgedPlan yours = judged_plan(run, run.run.recipe);
  give_plan(streams, run.output, yours.plan, yours.graph, run.topology);
  Json json{{"yours", json_of_plan(yours)}, {"best", nullptr},   {"because", nullptr},
            {"recipes", nullptr},           {"proven", nullptr}, {"left_out", run.run.left_out}};
  if (!run.json) report_run(run, yours, streams.out);
  if (run.seconds > 0) {
    SearchWatch watch(streams, SearchBudget{}, std::nullopt, "");
    const RecipeRanking ranking = ranked_for(run, yours, watch);
    SearchOutcome told;
    told.proposals = ranking.simulated();
    watch.finish(told);
    std::optional<JudgedPlan> best;
    if (ranking.best() != nullptr) best = judged_plan(run, ranking.best()->recipe);
    if (best) json["best"] = json_of_plan(*best);
    if (best) json["because"] = because(yours.parts(), best->parts());
    json["recipes"] = ranking.recipes;
    json["proven"] = ranking.proven();
    if (!run.json) streams.out << "\n" << verdict(yours, best, ranking);
  }
  if (run.json) give_document(streams, json);
  return yours.report.infeasible ? 1 : 0;
}

}  // namespace pipesim
