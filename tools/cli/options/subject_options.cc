#include "tools/cli/options/subject_options.h"

#include <fmt/format.h>

#include "costmodel/cost_model.h"
#include "search/baselines/baselines.h"
#include "search/planners/gpipe.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/shared_options.h"

namespace pipesim {
namespace {

// Gives a baseline's plan its pipeline and strategy.
void make_pipeline(const std::string& command, const Arguments& a, Subject& s, const CostModel& costs) {
  if (s.plan.found_by != "data-parallel")
    throw UsageError(command + ": --stages makes a pipeline of --baseline data-parallel only");
  const bool listed = lists_stages(a);
  PipelinedStrategy made = listed ? listed_stages(s.graph, costs, stage_list_of(a), schedule_of(a))
                                  : gpipe_strategy(s.graph, costs, pipeline_demand_of(a));
  s.plan.found_by = listed ? "hand" : "gpipe";
  s.plan.strategy = std::move(made.strategy);
  s.plan.options.pipeline = std::move(made.pipeline);
  if (const auto reason = illegal(s.graph, s.plan.strategy, s.plan.options, s.topology))
    throw InputError(*reason);
}

// What the plan is made for.
void name_origin(const ModelRun& run, const Arguments& a, Subject& s) {
  s.plan.model = run.model;
  s.plan.topology = a.text("topology");
  s.plan.model_fingerprint = s.graph.fingerprint();
  s.plan.topology_fingerprint = s.topology.fingerprint();
}

Subject subject_of_recipe(const std::string& command, const Arguments& a, std::ostream& err) {
  if (a.has("baseline")) throw UsageError(command + ": --recipe and --baseline exclude each other");
  Recipe recipe = recipe_of(a);
  Topology topology = topology_of(a);
  // What is executed is run by pipesim itself.
  const Runtime runtime = command == "execute" ? Runtime() : runtime_of_recipes(a, topology);
  const ModelRun run = recipe_run_of(a, topology, runtime, recipe);
  Subject s{open_model(run.model), std::move(topology), {}, {}};
  s.calibration = open_calibration(text_or_none(a, "calibration"), s.topology, err);
  s.profile_note = profile_note_of(a);
  s.plan.options = plan_options_of(a, run);
  if (command == "execute" && recipe.tensor_overlap.value_or(false))
    throw UsageError("execute: tp-overlap of the recipe is simulated, not executed; allowed: other parts");
  if (command == "execute" && recipe.messages == StageMessages::Blocking)
    throw UsageError("execute: messages=blocking of the recipe is simulated, not executed; allowed: beside");
  s.plan.runtime = command == "execute" ? runtime : with_policies(runtime, recipe);
  require_imbalance(s.graph, s.plan.options.imbalance);
  name_origin(run, a, s);
  s.plan.recipe = recipe.str();
  require_recipe_of(a, run, recipe, s.plan.options, s.topology);
  apply_recipe(recipe, RecipeModel(s.graph), s.topology, s.plan);
  return s;
}

}  // namespace

std::vector<Option> subject_options(const std::string& verb) {
  std::vector<Option> options{{"plan", "FILE", "", "the plan to " + verb + ", as search -o writes it"},
                              {.name = "baseline",
                               .argument = "NAME",
                               .default_value = "",
                               .help = verb + " a baseline of --model and --topology instead",
                               .choices = choices_of(names_of_baselines())},
                              recipe_option(verb + " --model and --topology split as a recipe says")};
  for (Option& o : model_and_topology_options()) options.push_back(std::move(o));
  for (Option& o : batch_options()) options.push_back(std::move(o));
  options.push_back(microbatches_option(""));
  for (Option& o : policy_options()) options.push_back(std::move(o));
  options.push_back(imbalance_option());
  for (Option& o : weight_options()) {
    o.details += (o.details.empty() ? "" : " ") + std::string("For a baseline; a plan file has its own.");
    options.push_back(std::move(o));
  }
  options.push_back(memory_margin_option());
  options.push_back(calibration_option());
  for (Option& o : in_group(
           OptionGroup::Pipeline,
           {{.name = "stages",
           .argument = "N|LIST",
           .default_value = "",
           .help = "run the data-parallel baseline as a pipeline",
           .details = "N: stages of about equal compute time, each on an equal share of the devices. LIST: "
                      "for each stage DEVICES@LAST_OPERATOR, or DEVICES alone, such as 8@layer12.ffn_add,8. "
                      "Without operators, the cuts are chosen so that the longest stage is as short as "
                      "possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, "
                      "1024),8'. 4x2 means 4 replicas of 2 devices each, which take microbatches in turn; "
                      "the schedules pipedream, pipedream-vertical-sync and inference allow it."},
            {"chunks", "N", "1", "stages on each group of devices (schedule interleaved)"},
            schedule_option("the order of a pipeline's steps")}))
    options.push_back(std::move(o));
  return options;
}

Subject subject_of(const std::string& command, const Arguments& a, std::ostream& err) {
  if (a.has("plan")) {
    if (a.has("baseline")) throw UsageError(command + ": --plan and --baseline exclude each other");
    for (const char* option : {"recipe", "optimizer", "gradient-type", "gradient-piece", "microbatches",
                               "recompute", "state-sharding", "gathered-inputs", "imbalance", "batch",
                               "microbatch", "profile-batch", "stages", "chunks", "schedule"}) {
      if (a.given(option))
        throw UsageError(
            fmt::format("{}: --plan and --{} exclude each other: the plan tells them", command, option));
    }
    if (a.given("set") && !a.has("model"))
      throw UsageError(command +
                       ": --plan and --set exclude each other without --model: the plan tells sizes");
    const PlanFile file = PlanFile::load(a.text("plan"));
    const std::string model = a.has("model") ? model_text_of(a) : file.model();
    OperatorGraph graph = open_model(model);
    Topology topology = topology_of(a, a.has("topology") ? a.text("topology") : file.topology());
    std::vector<OtherOrigin> others;
    Plan plan = read_plan(file, graph, topology, others);
    if (a.has("runtime") && a.given("runtime")) plan.runtime = runtime_of(a);
    if (const Framework* framework = framework_of(a)) {
      const Recipe recipe =
          required_recipe(*framework, framework_version_of(a), plan, RecipeModel(graph), topology);
      if (!a.given("runtime")) plan.runtime = with_policies(runtime_of_recipes(a, topology), recipe);
    }
    std::optional<Calibration> calibration = open_calibration(text_or_none(a, "calibration"), topology, err);
    return {std::move(graph),       std::move(topology), std::move(plan),
            std::move(calibration), profile_note(model), std::move(others)};
  }
  if (a.has("recipe")) return subject_of_recipe(command, a, err);
  if (!a.has("baseline"))
    a.refuse(a.has("model") && a.has("topology")
                 ? "--recipe or --baseline is missing, or --plan FILE"
                 : "--plan FILE is missing, or --model, --topology and --recipe or --baseline");
  const ModelRun run = model_run_of(a);
  Subject s{open_model(run.model), topology_of(a), {}, {}};
  s.calibration = open_calibration(text_or_none(a, "calibration"), s.topology, err);
  s.profile_note = profile_note_of(a);
  name_origin(run, a, s);
  s.plan.options = plan_options_of(a, run);
  require_recompute(s.graph, s.plan.options.recompute, a.has("stages"));
  require_imbalance(s.graph, s.plan.options.imbalance);
  s.plan.found_by = a.choice("baseline", names_of_baselines());
  s.plan.runtime = runtime_of(a);
  const CostModel costs(s.topology, pointer_to(s.calibration), s.plan.runtime);
  if (a.has("stages")) {
    make_pipeline(command, a, s, costs);
    return s;
  }
  for (const char* option : {"chunks", "schedule"}) {
    if (a.given(option)) throw UsageError(fmt::format("{}: --{} needs --stages", command, option));
  }
  s.plan.strategy = baseline_strategy(s.plan.found_by, s.graph, costs);
  return s;
}

}  // namespace pipesim
