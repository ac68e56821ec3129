#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "search/baselines/baselines.h"
#include "search/lower_bound/lower_bound.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/plan_set.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/plans/plan_reason.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/base/figures.h"
#include "tools/cli/base/command.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/run_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/searching/hints.h"
#include "tools/render/base/table.h"
#include "tools/render/base/text.h"
#include "tools/render/inputs/calibration_use_text.h"
#include "tools/render/plans/baselines_report.h"
#include "tools/render/plans/plan_reason_text.h"
#include "tools/render/plans/plan_report_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// A recipe with the model that it needs: one with its own microbatch.
struct ComparedRecipe {
  std::unique_ptr<const CostModel> own_costs;  // where the recipe changes the runtime's policies
  std::unique_ptr<const OperatorGraph> graph;
  std::unique_ptr<Evaluator> evaluator;
  Baseline row;
};

void add_details(Evaluator& evaluator, const Baseline& b, const FlopsCounting& counting, bool of_tokens,
                 Table& table) {
  if (!b.scored) return;
  const PlanReport r = report_plan(evaluator, evaluator.contents().bind(b.scored->plan), counting);
  Bytes peak;
  for (const DeviceMemory& m : r.memory) peak = std::max(peak, m.peak);
  std::vector<std::string> row{b.name,
                               pretty(to_seconds(r.critical.compute)),
                               pretty(to_seconds(r.critical.communication)),
                               pretty(to_seconds(r.critical.waiting)),
                               pretty(Seconds(summary_of(r.by_cause, r.compute).all_exposed)),
                               pretty(peak),
                               std::to_string(r.num_tasks)};
  if (of_tokens) {
    row.push_back(significant(r.rates.tokens_per_second, 4));
    row.push_back(percent(r.rates.mfu()));
  }
  table.add(std::move(row));
}

// The critical path, exposed communication and the fullest device of each plan, side by side.
std::string details_table(Evaluator& evaluator, const std::vector<Baseline>& baselines,
                          const std::vector<ComparedRecipe>& recipes, const FlopsCounting& counting) {
  std::vector<Table::Column> columns{{recipes.empty() ? "baseline" : "plan"},
                                     {"compute", Align::Right},
                                     {"communication", Align::Right},
                                     {"waiting", Align::Right},
                                     {"exposed", Align::Right},
                                     {"peak memory", Align::Right},
                                     {"tasks", Align::Right}};
  // The iteration may have any length here, since only the way of counting matters, which all plans share.
  const TrainingRates rates = training_rates(evaluator.contents(), to_nanoseconds(Seconds(1)), counting);
  const bool of_tokens = rates.tokens_per_second > 0;
  if (of_tokens) {
    columns.push_back({"tokens/s", Align::Right});
    columns.push_back({"MFU", Align::Right});
  }
  Table table(std::move(columns));
  for (const Baseline& b : baselines) add_details(evaluator, b, counting, of_tokens, table);
  for (const ComparedRecipe& recipe : recipes)
    add_details(*recipe.evaluator, recipe.row, counting, of_tokens, table);
  return fmt::format("on the critical path; communication exposed on a device (mean); in memory:\n{}{}",
                     table.str(2),
                     of_tokens ? fmt::format("  MFU counts {}; of {}\n", counting_text(rates),
                                             peak_text(rates, evaluator.topology()))
                               : "");
}

Json row_of(Evaluator& evaluator, const Baseline& b, const FlopsCounting& counting) {
  Json row{{"name", b.name}};
  if (b.scored)
    row.update(json_of(report_plan(evaluator, evaluator.contents().bind(b.scored->plan), counting),
                       evaluator.topology()));
  if (!b.infeasible.empty()) row["infeasible"] = b.infeasible;
  return row;
}

Json json_of(Evaluator& evaluator, const std::vector<Baseline>& baselines, const FlopsCounting& counting) {
  Json list = Json::array();
  for (const Baseline& b : baselines) list.push_back(row_of(evaluator, b, counting));
  return list;
}

// How the calibration covers the fastest baseline that fits, else the first.
std::optional<CalibrationUse> use_of(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const Baseline* chosen = nullptr;
  for (const Baseline& b : baselines) {
    if (!b.scored) continue;
    const bool fits = b.infeasible.empty(), better = chosen && fits && !chosen->infeasible.empty();
    const bool faster = chosen && fits && b.scored->evaluation.time < chosen->scored->evaluation.time;
    if (!chosen || better || faster) chosen = &b;
  }
  if (!chosen) return std::nullopt;
  const BoundStrategy strategy = evaluator.contents().bind(chosen->scored->plan);
  return calibration_use(evaluator, strategy);
}

std::string bound_line(double bound, const std::vector<Baseline>& baselines) {
  std::string text = fmt::format("  lower bound of every plan: {}", pretty(Seconds(bound)));
  const Baseline* fastest = fastest_baseline(baselines);
  const std::string far =
      fastest ? far_above(to_nanoseconds(Seconds(bound)), fastest->scored->evaluation.time, nullptr) : "";
  if (!far.empty()) text += fmt::format("\n  {} is {}", fastest->name, far);
  return text + "\n\n";
}

// What to try where no baseline fits.
std::string fit_line(Evaluator& evaluator, const std::vector<Baseline>& baselines, const ModelRun& run) {
  const Baseline* nearest = nearest_baseline(baselines);
  if (!nearest || fastest_baseline(baselines)) return "";
  return fmt::format("  no baseline fits; {} is the nearest{}\n\n", nearest->name,
                     hints_text(hints_to_fit(evaluator, *nearest, run, nullptr)));
}

// Names the operators of unknown kinds in the fastest baseline, or in the one that is nearest to fitting.
std::string opaque_line(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const Baseline* shown = fastest_baseline(baselines);
  if (!shown) shown = nearest_baseline(baselines);
  if (!shown || !shown->scored) return "";
  const std::string opaque = opaque_operators(evaluator, shown->scored->plan);
  return opaque.empty() ? "" : fmt::format("\nunknown kinds, with {}: {}\n", shown->name, opaque);
}

// Why the fastest baseline is faster than the next one that is another plan; nothing where there is none.
struct FastestReason {
  std::string name;
  PlanReason reason;
};
std::optional<FastestReason> why_fastest(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const Baseline* fastest = fastest_baseline(baselines);
  const Baseline* next = nullptr;
  if (!fastest) return std::nullopt;
  for (const Baseline& b : baselines) {
    if (!b.scored || !b.infeasible.empty() || b.scored->plan == fastest->scored->plan) continue;
    if (!next || b.scored->evaluation.time < next->scored->evaluation.time) next = &b;
  }
  if (!next) return std::nullopt;
  const BoundStrategy before = evaluator.contents().bind(next->scored->plan),
                      after = evaluator.contents().bind(fastest->scored->plan);
  const PlanCosts costs_before = plan_costs(evaluator, before), costs_after = plan_costs(evaluator, after);
  const PlanOptions& options = evaluator.contents().options();
  return FastestReason{fastest->name,
                       plan_reason(evaluator.graph(), {next->name, before, costs_before, options},
                                   {fastest->name, after, costs_after, options}, "")};
}

std::string why_text(Evaluator& evaluator, const std::vector<Baseline>& baselines) {
  const auto why = why_fastest(evaluator, baselines);
  constexpr std::size_t kWidth = 110, kIndent = 2;
  return why ? wrap(fmt::format("why {} is the fastest: {}", why->name, to_text(why->reason)), kWidth,
                    kIndent)
             : "";
}

// Returns a time that no plan can beat; it holds for analytic durations only.
std::optional<double> bound_of(const CostModel& costs, const OperatorGraph& graph,
                               const PlanOptions& options) {
  if (costs.calibrated()) return std::nullopt;
  return to_seconds(lower_bound(graph, costs, options)).value;
}

Option save_plans_option() {
  return {.name = "save-plans",
          .argument = "FOLDER",
          .default_value = "",
          .help = "write the plans that run, one file each",
          .details = "A baseline's file is data-parallel.json, the third random plan's random-3.json.",
          .group = OptionGroup::Execution};
}

// Refuses options of the run without --execute, since they would be ignored.
void require_execute(const Arguments& arguments) {
  std::vector<Option> of_run = plan_set_options("", "0");
  for (Option& o : run_options()) of_run.push_back(std::move(o));
  of_run.push_back(save_plans_option());
  for (const Option& o : of_run) {
    if (arguments.given(o.name)) throw UsageError(fmt::format("compare: --{} needs --execute", o.name));
  }
}

// A recipe as it was written, complete, and the model that it needs.
struct RecipeRun {
  std::string text;
  Recipe recipe;
  ModelRun model;
};

std::vector<RecipeRun> recipe_runs_of(const Arguments& a, const Topology& topology) {
  std::vector<RecipeRun> runs;
  for (const std::string& text : a.texts("recipe")) {
    RecipeRun run{text, recipe_of(a, text), {}};
    run.model = recipe_run_of(a, topology, runtime_of_recipes(a, topology), run.recipe);
    runs.push_back(std::move(run));
  }
  return runs;
}

// What the command line asks for without --execute.
struct CompareRun {
  ModelRun model;
  OperatorGraph graph;
  Topology topology;
  PlanOptions options;
  std::string calibration, profile_note;  // "": none
  std::vector<RecipeRun> recipes;
  Runtime runtime;
  bool json;
  FlopsCounting counting;
};

CompareRun compare_run_of(const Arguments& a) {
  require_execute(a);
  ModelRun model = model_run_of(a);
  OperatorGraph graph = open_model(model.model);
  Topology topology = topology_of(a);
  PlanOptions options = plan_options_of(a, model);
  require_recompute(graph, options.recompute);
  require_imbalance(graph, options.imbalance);
  std::vector<RecipeRun> recipes = recipe_runs_of(a, topology);
  for (const RecipeRun& run : recipes) require_recipe_of(a, run.model, run.recipe, options, topology);
  Runtime runtime = recipes.empty() ? runtime_of(a) : runtime_of_recipes(a, topology);
  return {std::move(model),
          std::move(graph),
          std::move(topology),
          std::move(options),
          text_or_none(a, "calibration"),
          profile_note_of(a),
          std::move(recipes),
          std::move(runtime),
          a.given("json"),
          flops_counting_of(framework_of(a))};
}

ComparedRecipe scored(const RecipeRun& run, PlanOptions options, const CostModel& shared,
                      const Calibration* calibration) {
  ComparedRecipe compared;
  compared.graph = std::make_unique<OperatorGraph>(open_model(run.model.model));
  if (const Runtime own = with_policies(shared.runtime(), run.recipe); own != shared.runtime())
    compared.own_costs = std::make_unique<CostModel>(shared.topology(), calibration, own);
  const CostModel& costs = compared.own_costs ? *compared.own_costs : shared;
  Plan plan;
  plan.options = std::move(options);
  plan.options.microbatches = run.model.microbatches;
  apply_recipe(run.recipe, RecipeModel(*compared.graph), costs.topology(), plan);
  compared.evaluator = std::make_unique<Evaluator>(*compared.graph, costs, plan.options);
  const Evaluated found = compared.evaluator->evaluate(plan.strategy, {.peaks = true});
  compared.row = {run.text, Scored<Strategy>{plan.strategy, *found.cost},
                  memory_shortage(found.peaks, costs.topology()).value_or("")};
  return compared;
}

std::vector<Baseline> with_recipes(std::vector<Baseline> rows, const std::vector<ComparedRecipe>& recipes) {
  for (const ComparedRecipe& r : recipes) rows.push_back(r.row);
  return rows;
}

int compare(const CompareRun& run, Streams& streams) {
  const auto& [model, graph, topology, options, file, profile, recipe_runs, runtime, as_json, counting] = run;
  const std::optional<Calibration> calibration = open_calibration(file, topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration), runtime);
  Evaluator evaluator(graph, costs, options);
  const std::vector<Baseline> baselines = score_baselines(evaluator);
  const std::optional<double> bound = bound_of(costs, graph, options);
  std::vector<ComparedRecipe> recipes;
  for (const RecipeRun& r : recipe_runs)
    recipes.push_back(scored(r, options, costs, pointer_to(calibration)));
  if (as_json) {
    Json json{
        {"model", graph.name()}, {"topology", topology.name()}, {"num_devices", topology.num_devices()}};
    if (runtime != Runtime()) json["runtime"] = runtime.name;
    if (bound) json["lower_bound_s"] = *bound;
    if (!profile.empty()) json["profile_note"] = profile;
    json["baselines"] = json_of(evaluator, baselines, counting);
    for (const ComparedRecipe& r : recipes) json["recipes"].push_back(row_of(*r.evaluator, r.row, counting));
    if (const auto why = why_fastest(evaluator, baselines)) {
      json["reason"] = {{"plan", why->name}};
      json["reason"].update(json_of(why->reason));
    }
    if (const auto use = costs.calibrated() ? use_of(evaluator, baselines) : std::nullopt)
      json["calibration"] = json_of(*use);
    give_document(streams, json);
    return 0;
  }
  streams.out << fmt::format("{} on {} ({}), {}{}\n\n", graph.name(), topology.name(), devices_text(topology),
                             batch_text(graph, options),
                             runtime == Runtime() ? "" : ", run by " + runtime.name)
              << (profile.empty() ? "" : fmt::format("  {}\n\n", profile))
              << baselines_table(with_recipes(baselines, recipes), samples_per_iteration(graph, options),
                                 recipes.empty() ? "baseline" : "plan")
              << why_text(evaluator, baselines) << (bound ? bound_line(*bound, baselines) : "\n")
              << fit_line(evaluator, baselines, model)
              << details_table(evaluator, baselines, recipes, counting);
  streams.out << opaque_line(evaluator, baselines);
  if (const auto use = costs.calibrated() ? use_of(evaluator, baselines) : std::nullopt)
    streams.out << "\nof the fastest baseline:\n" << durations_line(*use);
  return 0;
}

int run_compare(const Arguments& arguments, Streams& streams) {
  if (arguments.given("execute")) return run_compare_execution(arguments, streams);
  return compare(compare_run_of(arguments), streams);
}

}  // namespace

Command compare_command() {
  Command c;
  c.name = "compare";
  c.summary = "show all baselines of a model on a topology side by side";
  c.description =
      "Simulates the single-device, data-parallel, model-parallel and expert plans. For each it shows the "
      "iteration time, what the critical path consists of, and the memory of the fullest device, or why the "
      "plan does not fit.\n\nWith --execute it also runs the plans that fit, in turns, on the backend, and "
      "other plans that --plan and --random name. It shows predicted and measured times side by side, how "
      "well the predicted order agrees with the measured one (Spearman's rank correlation), and how much "
      "slower the plan predicted best is than the one measured best.";
  c.options = model_and_topology_options();
  for (Option& o : plan_options()) c.options.push_back(std::move(o));
  c.options.push_back(for_option());
  c.options.push_back(recipe_option("compares a recipe with them; may be repeated"));
  c.options.back().repeated = true;
  c.options.push_back(calibration_option());
  c.options.push_back(runtime_option());
  c.options.push_back({.name = "execute",
                       .argument = "",
                       .default_value = "",
                       .help = "run the plans as well",
                       .details = "--plan, --random and the other options of execution need --execute.",
                       .group = OptionGroup::Execution});
  for (Option& o : plan_set_options("run", "0")) c.options.push_back(std::move(o));
  c.options.push_back(save_plans_option());
  for (Option& o : run_options()) c.options.push_back(std::move(o));
  c.options.push_back(json_option());
  c.common = {"model", "topology", "recipe", "batch", "microbatches", "execute", "backend", "json"};
  c.examples = {
      {"pipesim compare --model llama3-8b --topology dgx-h100:2 --recipe tp8,sp --recipe tp2,pp4,sp",
       "which recipe is faster?"},
      {"pipesim compare --model resnet101 --topology p100-4x4", "how good are the usual plans?"},
      {"pipesim compare --execute --model lenet:batch=32 --topology cpu:2 --calibration lenet.db",
       "and were they predicted well?"}};
  c.run = run_compare;
  return c;
}

}  // namespace pipesim
