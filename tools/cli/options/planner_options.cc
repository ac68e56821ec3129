#include "tools/cli/options/planner_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/base/cores.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/shared_options.h"

namespace pipesim {
namespace {

PipeDreamOptions pipedream_options(const Arguments& a) {
  PipeDreamOptions options;
  options.repaired = !a.given("cost-model") || a.text("cost-model") == "repaired";
  if (options.repaired) options.activation_compression = 1;
  if (a.has("activation-transfers"))
    options.activation_compression = a.number("activation-transfers", 1e-3, 1e6);
  options.straight = a.given("straight");
  options.fewer_machines = a.given("use-fewer");
  if (a.has("memory-limit")) {
    try {
      options.memory_limit = parse_bytes(a.text("memory-limit"));
    } catch (const InputError& error) {
      throw UsageError(fmt::format("--memory-limit: {}", error.what()));
    }
  }
  return options;
}

void take_stages(const Arguments& a, PlannerSettings& settings) {
  using Stages = Algorithm::Stages;
  const Stages stages = algorithm_of(a).stages;
  if (stages == Stages::InGroups && !a.has("stages") && a.given("chunks"))
    throw UsageError("search: --chunks needs --stages");
  if (!a.has("stages")) return;
  constexpr std::int64_t kMostStages = 100'000, kMostTriedStages = 64;
  if (stages == Stages::InGroups) {
    const PipelineDemand demand = pipeline_demand_of(a);
    settings.stages = demand.stages;
    settings.chunks = demand.chunks;
  } else if (stages == Stages::Listed && lists_stages(a)) {
    settings.listed = stage_list_of(a);
    if (std::ranges::any_of(settings.listed, [](const ListedStage& stage) { return stage.replicas > 1; }))
      throw UsageError("--stages: dapple's replicas split every microbatch; allowed: DEVICES, as in 8,8");
  } else {
    settings.stages = static_cast<std::int32_t>(
        a.integer("stages", 1, stages == Stages::Listed ? kMostStages : kMostTriedStages));
  }
}

std::int32_t layers_of(const Arguments& a) {
  const Algorithm& algorithm = algorithm_of(a);
  if (!a.given("layers")) return algorithm.usual_layers;
  return static_cast<std::int32_t>(a.integer("layers", 1, algorithm.most_layers));
}

std::optional<StageCostsFile> stage_costs_of(const Arguments& a) {
  if (!a.has("stage-costs")) return std::nullopt;
  if (a.given("layers"))
    throw UsageError("search: --layers and --stage-costs exclude each other: the file tells them");
  const std::string& file = a.text("stage-costs");
  const bool asked = a.has("microbatch") || a.given("microbatches");
  return StageCostsFile{file, read_stage_costs(read_file(file), file), !asked, a.has("batch")};
}

ChainSettings chain_settings_of(const Arguments& a) {
  ChainSettings settings;
  settings.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  settings.chains = static_cast<std::size_t>(a.integer("chains", 1, 1024));
  settings.flexflow_moves = a.choice("moves", {"all", "flexflow"}) == "flexflow";
  if (settings.flexflow_moves) {
    if (a.given("chains") && settings.chains != 1)
      throw UsageError("search: --moves flexflow is one chain, --chains asks for more");
    settings.chains = 1;
  }
  settings.threads = threads_of(a);
  settings.checkpoint = text_or_none(a, "checkpoint");
  settings.checkpoint_every = a.number("checkpoint-every", 0, 1e6);
  settings.resume = text_or_none(a, "resume");
  settings.seed_is_asked = a.given("seed");
  settings.chains_are_asked = a.given("chains");
  settings.recomputes_stages = a.text("recompute") == "stage";
  return settings;
}

constexpr std::int64_t kMostMicrobatch = 1 << 20;

}  // namespace

// For auto, --recompute and --state-sharding are conditions on recipes, too.
std::vector<RecipeCondition> planner_conditions_of(const Arguments& a) {
  std::vector<RecipeCondition> conditions = recipe_conditions_of(a);
  if (!algorithm_of(a).asks_others) return conditions;
  if (a.given("recompute") && a.text("recompute") != "stage")
    conditions.push_back(parse_recipe_condition("recompute=" + a.text("recompute"), false));
  if (a.given("state-sharding")) {
    const StateSharding sharding = parse_state_sharding(a.text("state-sharding"));
    conditions.push_back(
        parse_recipe_condition(fmt::format("zero={}", static_cast<int>(sharding.kind)), false));
  }
  return conditions;
}

const Algorithm& algorithm_of(const Arguments& arguments) {
  return algorithm_named(arguments.text("algorithm"));
}

bool asks_for_splits(const Arguments& arguments) {
  const Algorithm& algorithm = algorithm_of(arguments);
  constexpr std::array kOfPipelines{"stages", "schedule", "layers", "microbatches", "microbatch"};
  const bool of_pipelines =
      std::ranges::any_of(kOfPipelines, [&](const char* option) { return arguments.given(option); });
  return algorithm.splits_alone && !(algorithm.makes_stages && of_pipelines);
}

Option mesh_option(std::string help) {
  return {.name = "mesh",
          .argument = "AxB",
          .default_value = "",
          .help = std::move(help),
          .details =
              "Such as 8x8, where the last axis runs over neighbouring devices. Each axis splits one "
              "dimension of an operator, or copies it. A dimension may take several axes that are "
              "beside each other. Without --mesh an operator may be split in any way, on any node, "
              "part of a node or group of nodes."};
}

MeshAxes mesh_of(const Arguments& a) {
  MeshAxes axes;
  if (!a.has("mesh")) return axes;
  const std::string& text = a.text("mesh");
  constexpr std::int32_t kMost = 1 << 20;
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more; more = at != end && *at++ == 'x') {
    std::int32_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > kMost) break;
    axes.push_back(size);
    at = stop;
    if (at == end) return axes;
  }
  throw UsageError(
      fmt::format("--mesh: found \"{}\", allowed: sizes from 1 on with x between them, as in 8x8", text));
}

namespace {

std::vector<Option> own_planner_options() {
  return in_group(
      OptionGroup::Pipeline,
      {{.name = "stages",
        .argument = "N|LIST",
        .default_value = "",
        .help = "stages of the pipeline: their number, or a list",
        .details = "gpipe: N stages of about equal compute time, on equal shares of the devices. Without "
                   "--stages it simulates every number that divides the devices, with --schedule or with all "
                   "schedules. dapple: scores and simulates these stages instead of looking for better ones; "
                   "N, or a list as for simulate (8@layer12.ffn_add,8). exhaustive: N stages only."},
       {"chunks", "N", "1", "gpipe: stages on each group of devices (interleaved)"},
       schedule_option("the order of steps in a planned pipeline"),
       {.name = "cost-model",
        .argument = "NAME",
        .default_value = "",
        .help = "what pipedream and dapple minimise",
        .choices = {{"paper", "the published objective, with its faults"},
                    {"repaired", "pipedream's objective without those faults; its default"},
                    {"simulated", "the simulated time; dapple's default"}}},
       {.name = "activation-transfers",
        .argument = "COMPRESSION_RATIO",
        .default_value = "",
        .help = "pipedream: activations that cross a cut take time",
        .implied = "1",
        .details = "Their size is divided by the ratio (default: 1)."},
       {.name = "layers",
        .argument = "N",
        .default_value = "16",
        .help = "alpa, exhaustive: number of layers to form",
        .details = "Operators are grouped into this many layers, and stages consist of layers. The default "
                   "of exhaustive is 8."},
       {.name = "stage-costs",
        .argument = "FILE",
        .default_value = "",
        .help = "alpa: a file with the costs of stages",
        .details =
            "JSON. They take the place of simulated costs. Without --model the best partition is printed."},
       mesh_option("intra: only splits over the axes of this mesh of all devices"),
       {.name = "within",
        .argument = "PERCENT",
        .default_value = "0",
        .help = "recipes, auto: end when no recipe can be better by more",
        .details = "Of the best one's time. A little saves much: the last proofs take longest."},
       {"straight", "", "", "pipedream: no stage on more than one device"},
       {"use-fewer", "", "", "pipedream: devices may stay idle"},
       {"memory-limit", "SIZE", "", "pipedream: memory for all batches in flight on a device"}});
}

}  // namespace

std::vector<Option> planner_options() {
  std::vector<Option> options = own_planner_options();
  for (Option& o : in_group(OptionGroup::Pipeline, recipe_condition_options("recipes, auto: ")))
    options.insert(std::ranges::find(options, "within", &Option::name), std::move(o));
  return options;
}

namespace {

// Refuses options for what recipes choose themselves.
void refuse_parts_of_recipes(const Arguments& a) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kParts{{{"microbatches", "mbs=2"},
                                                                       {"microbatch", "mbs=2"},
                                                                       {"recompute", "recompute=full"},
                                                                       {"state-sharding", "zero=1"},
                                                                       {"gathered-inputs", ""},
                                                                       {"schedule", "schedule=1f1b"}}};
  for (const auto& [option, condition] : kParts) {
    if (!a.given(option)) continue;
    throw UsageError(fmt::format("search: --{} does not go with --algorithm recipes, which chooses that{}",
                                 option, *condition == 0 ? "" : fmt::format("; see --only {}", condition)));
  }
}

}  // namespace

void check_planner_options(const Arguments& a) {
  const Algorithm& algorithm = algorithm_of(a);
  const std::vector<std::string_view>& mine = algorithm.settings;
  if (algorithm.ranks_recipes) refuse_parts_of_recipes(a);
  for (const Option& option : planner_options()) {
    if (a.given(option.name) && std::ranges::find(mine, option.name) == mine.end())
      throw UsageError(fmt::format("search: --{} does not go with --algorithm {}{}", option.name,
                                   algorithm.name, a.given("algorithm") ? "" : ", which is the default"));
  }
  if (a.given("for") && std::ranges::find(mine, "for") == mine.end())
    throw UsageError(
        fmt::format("search: --for goes with --algorithm auto and recipes, not with {}", algorithm.name));
  if (a.given("cost-model"))
    (void)a.choice("cost-model", {algorithm.cost_models.begin(), algorithm.cost_models.end()});
  (void)schedule_of(a);
  for (const char* option : {"proposals", "seed", "threads", "chains", "moves", "search-log", "candidates"}) {
    if (a.given(option) && std::ranges::find(mine, option) == mine.end())
      throw UsageError(
          fmt::format("search: --{} does not go with --algorithm {}{}", option, algorithm.name,
                      algorithm.reports_progress && algorithm.makes_stages ? "" : ", which does not search"));
  }
}

PlannerSettings planner_settings_of(const Arguments& a) {
  const Algorithm& algorithm = algorithm_of(a);
  PlannerSettings settings;
  settings.schedule = a.text("schedule");
  settings.schedules = schedules_to_try(a);
  settings.schedule_is_asked = a.given("schedule");
  take_stages(a, settings);
  settings.published_cost = a.has("cost-model") && a.text("cost-model") == "paper";
  settings.pipedream = pipedream_options(a);
  // Where weights change as PipeDream does it, replicas take turns, as the planner's model assumes. `auto`
  // moves replicas of plans that split every microbatch.
  const ScheduleKind& kind = plan_schedule(settings.schedule);
  settings.replicas_take_turns =
      kind.takes_replicas && kind.versions_behind != nullptr && !algorithm.asks_others;
  if (a.has("microbatch")) settings.copy_microbatch = a.integer("microbatch", 1, kMostMicrobatch);
  settings.layers = layers_of(a);
  settings.threads = a.given("threads") ? threads_of(a) : available_cores();
  constexpr double kPercent = 0.01;
  settings.within = kPercent * a.number("within", 0, 50);
  settings.stage_costs = stage_costs_of(a);
  settings.mesh = mesh_of(a);
  settings.tries_pipelines = !asks_for_splits(a);
  settings.budget = search_budget_of(a);
  if (algorithm.begins_anywhere) settings.chains = chain_settings_of(a);
  return settings;
}

}  // namespace pipesim
