#include "tools/cli/options/shared_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "search/baselines/baselines.h"
#include "sim/base/cores.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/options/framework_options.h"
#include "tools/interop/framework/open_run.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostBatch = 1 << 20;

// --batch through the value of another option.
std::int32_t quotient_of(const Arguments& a, const char* option, std::int64_t value) {
  const std::int64_t batch = a.integer("batch", 1, kMostBatch);
  if (batch % value != 0 || batch / value > kMostBatch)
    throw UsageError(fmt::format("--batch {} is no multiple of --{} {}", batch, option, value));
  return static_cast<std::int32_t>(batch / value);
}

// --batch would be overruled, or overrule.
void require_one_batch(const Arguments& a, const std::string& model) {
  const char* other = a.has("batch") ? "batch" : a.has("microbatch") ? "microbatch" : nullptr;
  if (!other || a.texts("set").empty()) return;
  const std::string key = batch_key(model);
  for (const std::string& setting : a.texts("set")) {
    if (("," + setting).find("," + key + "=") != std::string::npos && !key.empty())
      throw UsageError(fmt::format("--set {} and --{} both tell the model's samples; leave one of them out",
                                   setting, other));
  }
}

}  // namespace

std::vector<Option> model_and_topology_options() {
  return {{.name = "model",
           .argument = "MODEL",
           .default_value = "",
           .help = kModelHelp,
           .details = kModelDetails},
          set_option(),
          topology_option()};
}

Option topology_option() {
  return {.name = "topology",
          .argument = "TOPOLOGY",
          .default_value = "",
          .help = kTopologyHelp,
          .details = kTopologyDetails};
}

Option set_option() {
  return {
      .name = "set",
      .argument = "KEY=VALUE",
      .default_value = "",
      .help = "sets a size of the model; may be repeated",
      .repeated = true,
      .details =
          "--set layers=12 means the same as NAME:layers=12. --set b=32 sets a size that FILE.json names."};
}

std::string model_text_of(const Arguments& a) {
  const std::string model = model_of_config(with_settings(required_text(a, "model"), a.texts("set")));
  const Framework* framework = framework_of(a);
  return framework == nullptr ? model : model_kept_by(*framework, model);
}

Option memory_margin_option() {
  return {.name = "memory-margin",
          .argument = "MARGIN",
          .default_value = "",
          .help = "memory to leave free on every device",
          .details =
              "A share (10%) or a size (2GB). It is for memory that no plan counts: driver, communication "
              "libraries, fragmentation."};
}

Option microbatches_option(const std::string& microbatches) {
  return {
      .name = "microbatches",
      .argument = "N",
      .default_value = microbatches,
      .help = "microbatches in an iteration",
      .details = "Each has the model's batch. They run one after the other; then the weights are updated."};
}

namespace {

Option recompute_option() {
  return {.name = "recompute",
          .argument = "WHAT",
          .default_value = "none",
          .help = "what is computed again in backward instead of kept",
          .choices = {{"none", "everything that backward needs is kept"},
                      {"selective", "attention"},
                      {"full", "everything but the inputs of each layer"},
                      {"stage", "everything but the inputs of each stage of the pipeline"}}};
}

Option state_sharding_option() {
  return {
      .name = "state-sharding",
      .argument = "WHAT",
      .default_value = "none",
      .help = "what the copies of a weight divide: zero1, zero2, zero3",
      .details =
          "zero1: the optimizer's state; weights are gathered after the update. zero2: gradients as well, "
          "which are reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch "
          "gathers before forward and before backward. Parts may follow, separated by commas: shard=8 "
          "lets 8 neighbouring copies divide it, and other eights hold it again; reshard=never keeps "
          "gathered weights from forward to backward; prefetch=2 gathers two layers ahead instead of one; "
          "weights=float32 (zero3) keeps 16-bit weights in float32 without another copy; gather=float32 lets "
          "them travel so; overlap=gather (zero1, zero2) gathers during the next forward."};
}

Option gathered_inputs_option() {
  return {.name = "gathered-inputs",
          .argument = "WHAT",
          .default_value = "keep",
          .help = "inputs gathered for forward are kept, or gathered again",
          .details =
              "Where the devices of an operator each hold a part of its input and put it together, as under "
              "sequence parallelism. Gathering again for backward takes time and saves memory.",
          .choices = {{"keep", "for backward, on every device"},
                      {"again", "only the parts stay; backward gathers them again"}}};
}

Option gradient_reduction_option() {
  return {
      .name = "gradient-reduction",
      .argument = "WHEN",
      .default_value = "overlapped",
      .help = "when a pipeline reduces weight gradients",
      .details =
          "Of pipelines that reduce them once an iteration. Beside backward they may hold links that stages "
          "before wait for. Recipes with pp reduce them after the steps unless they say reduce=overlapped.",
      .choices = {{"overlapped", "as soon as backward has made them"},
                  {"after-steps", "when the stage has done all its steps"}}};
}

}  // namespace

std::vector<Option> policy_options() {
  return {recompute_option(), state_sharding_option(), gathered_inputs_option(), gradient_reduction_option()};
}

Option imbalance_option() {
  return {.name = "imbalance",
          .argument = "LOADS",
          .default_value = "1",
          .help = "how unevenly tokens go to the experts of a layer",
          .details =
              "1.2: the fullest expert gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the "
              "experts, repeated until all have one. Every device of a group waits for the fullest."};
}

Imbalance imbalance_of(const Arguments& arguments) {
  try {
    return parse_imbalance(arguments.text("imbalance"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--{}", error.what()));
  }
}

StateSharding state_sharding_of(const Arguments& arguments) {
  try {
    return parse_state_sharding(arguments.text("state-sharding"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--state-sharding: {}", error.what()));
  }
}

Option recipe_option(const std::string& help) {
  return {.name = "recipe",
          .argument = "RECIPE",
          .default_value = "",
          .help = help,
          .details =
              "Parts separated by commas, such as tp8,pp4,sp,mbs1; \"pipesim help recipes\" lists them. The "
              "optimizer is adam, unless --optimizer says otherwise."};
}

Recipe recipe_of(const Arguments& a) { return recipe_of(a, a.text("recipe")); }

namespace {

// How a recipe says what an option says.
std::string part_of_recipe(const std::string& option, const std::string& value) {
  if (option == "stages") return "pp4";
  if (option == "chunks") return "vpp2";
  if (option == "state-sharding") return value;
  return fmt::format("{}={}", option == "gathered-inputs" ? "gathered" : option, value);
}

}  // namespace

Recipe recipe_of(const Arguments& a, const std::string& text) {
  for (const char* option :
       {"stages", "chunks", "schedule", "recompute", "state-sharding", "gathered-inputs"}) {
    if (a.given(option))
      throw UsageError(fmt::format("--recipe and --{} exclude each other: the recipe says it ({})", option,
                                   part_of_recipe(option, a.text(option))));
  }
  try {
    return parse_recipe(text);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--{}", error.what()));
  }
}

ModelRun recipe_run_of(const Arguments& a, const Topology& topology, const Runtime& runtime, Recipe& recipe) {
  BatchRequest asked;
  const std::string model = model_text_of(a);
  require_one_batch(a, model);
  if (a.has("batch")) asked.batch = a.integer("batch", 1, kMostBatch);
  if (a.has("microbatch")) asked.microbatch = a.integer("microbatch", 1, kMostBatch);
  if (a.given("microbatches")) asked.microbatches = a.integer("microbatches", 1, kMostMicrobatches);
  const std::string profiled =
      a.has("profile-batch") ? with_profile_batch(model, a.integer("profile-batch", 1, kMostBatch)) : model;
  ModelRun run = run_of_recipe(profiled, static_cast<std::int64_t>(topology.num_devices()), asked, recipe);
  if (dispatches_locally(framework_of(a), run.model, runtime))
    run.model = with_token_groups(run.model, recipe.shape(true).sequence.token_groups);
  return run;
}

std::string text_or_none(const Arguments& a, const std::string& option) {
  return a.has(option) ? a.text(option) : "";
}

Option calibration_option() {
  return {.name = "calibration",
          .argument = "FILE",
          .default_value = "",
          .help = "use measured durations, or constants fitted to runs",
          .details =
              "A file from the command calibrate. The report lists durations that had to be guessed. "
              "FILE,FILE: durations, and constants from calibrate --runs."};
}

Option runtime_option() {
  Option option{.name = "runtime",
                .argument = "NAME",
                .default_value = "",
                .help = "what runs the plan, with what its host costs",
                .details =
                    "Left out: for recipes on A100 and later GPUs that of --for, or megatron; else pipesim. "
                    "NAME:KEY=VALUE,… changes figures. KEY: " +
                    runtime_keys_text() + "."};
  for (const RuntimePreset& preset : runtime_presets())
    option.choices.push_back({preset.runtime.name, preset.description});
  return option;
}

Runtime runtime_of(const Arguments& arguments) {
  return arguments.has("runtime") ? parse_runtime(arguments.text("runtime")) : Runtime();
}

Runtime runtime_of_recipes(const Arguments& arguments, const Topology& topology) {
  if (arguments.has("runtime")) return runtime_of(arguments);
  const Framework* framework = framework_of(arguments);
  return framework == nullptr ? runtime_for_recipes(topology)
                              : runtime_for_recipes(topology, framework->runtime);
}

double tokens_of(const Arguments& a) {
  const std::string& text = a.text("tokens");
  constexpr std::array<std::pair<char, double>, 4> kUnits{{{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}};
  std::string number = text;
  double unit = 1;
  for (const auto& [letter, times] : kUnits) {
    if (number.empty() || std::toupper(static_cast<unsigned char>(number.back())) != letter) continue;
    number.pop_back();
    unit = times;
    break;
  }
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || stopped != end || !(value > 0) || value * unit > 1e18)
    throw UsageError(
        fmt::format("--tokens \"{}\", allowed: a number above 0, with K, M, B or T, such as 15T", text));
  return value * unit;
}

Option json_option() {
  return {.name = "json",
          .argument = "",
          .default_value = "",
          .help = "print one JSON object instead of text",
          .group = OptionGroup::Output};
}

std::vector<Choice> choices_of(const std::vector<std::string>& names) {
  std::vector<Choice> choices;
  for (const std::string& name : names) choices.push_back({name});
  return choices;
}

std::vector<std::string> names_of_baselines() {
  std::vector<std::string> names;
  for (const std::string_view name : baseline_names()) names.emplace_back(name);
  return names;
}

int threads_of(const Arguments& arguments) {
  constexpr std::int64_t kMost = 1024;
  if (arguments.given("threads")) return static_cast<int>(arguments.integer("threads", 1, kMost));
  // Further ones would have nothing to run, but memory of their own.
  const std::int64_t chains =
      arguments.text("moves") == "flexflow" ? 1 : arguments.integer("chains", 1, kMost);
  return static_cast<int>(std::min<std::int64_t>(available_cores(), chains));
}

Topology topology_of(const Arguments& a, const std::string& text) {
  if (!a.has("memory-margin")) return open_topology(text);
  MemoryMargin margin;
  try {
    margin = MemoryMargin::parse(a.text("memory-margin"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--memory-margin: {}", error.what()));
  }
  const Topology topology = open_topology(text);
  try {
    return topology.with_memory_margin(margin);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--memory-margin: {}", error.what()));
  }
}

Topology topology_of(const Arguments& a) { return topology_of(a, required_text(a, "topology")); }

std::vector<Option> weight_options() {
  return {{.name = "optimizer",
           .argument = "NAME",
           .default_value = "momentum",
           .help = "the optimizer: its state in memory and its update",
           .choices = choices_of({"sgd", "momentum", "adam"})},
          {.name = "gradient-type",
           .argument = "TYPE",
           .default_value = "float32",
           .help = "type in which weight gradients are accumulated and sent",
           .choices = choices_of({"float32", "float16", "bfloat16", "float64"})},
          {"gradient-piece", "SIZE", "25 MB", "largest piece that gradient synchronisation sends at once"}};
}

std::vector<Option> plan_options() {
  std::vector<Option> options = weight_options();
  options.push_back(microbatches_option("1"));
  for (Option& o : policy_options()) options.push_back(std::move(o));
  options.push_back(imbalance_option());
  options.push_back(memory_margin_option());
  for (Option& o : batch_options()) options.push_back(std::move(o));
  return options;
}

const std::string& required_text(const Arguments& arguments, const std::string& option) {
  if (arguments.has(option)) return arguments.text(option);
  const bool both = option == "model" && !arguments.has("topology");
  arguments.refuse(both ? "--model and --topology are missing" : fmt::format("--{} is missing", option));
}

Option schedule_option(const std::string& help) {
  const std::vector<std::string> possible = plan_schedule_forms();
  Option option{.name = "schedule",
                .argument = "NAME",
                .default_value = "1f1b",
                .help = help,
                .group = OptionGroup::Pipeline};
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (std::ranges::find(possible, kind.form()) != possible.end())
      option.choices.push_back({kind.form(), std::string(kind.summary)});
  }
  return option;
}

const std::string& schedule_of(const Arguments& arguments) {
  const std::string& written = arguments.text("schedule");
  const std::string name = written.substr(0, written.find(':'));
  const auto numbered = [&](const ScheduleKind& kind) { return kind.name == name && kind.takes_number(); };
  if (std::ranges::none_of(schedule_kinds(), numbered))
    return arguments.choice("schedule", plan_schedule_forms());
  try {
    (void)plan_schedule(written);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--schedule: {}", error.what()));
  }
  return written;
}

bool lists_stages(const Arguments& a) {
  return a.has("stages") && a.text("stages").find_first_of(",@x") != std::string::npos;
}

std::vector<ListedStage> stage_list_of(const Arguments& a) {
  if (a.given("chunks")) throw UsageError("--chunks needs --stages N: listed stages share no devices");
  try {
    return parse_stage_list(a.text("stages"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--stages: {}", error.what()));
  }
}

PipelineDemand pipeline_demand_of(const Arguments& arguments) {
  constexpr std::int64_t kMost = 100'000;
  const std::string& schedule = schedule_of(arguments);
  const bool implied = lies_in_v(schedule) && !arguments.given("chunks");
  return {static_cast<std::int32_t>(arguments.integer("stages", 1, kMost)),
          implied ? 2 : static_cast<std::int32_t>(arguments.integer("chunks", 1, kMost)), schedule};
}

std::vector<Option> batch_options() {
  return {{"batch", "N", "", "samples in an iteration, in all microbatches together"},
          {.name = "microbatch",
           .argument = "N",
           .default_value = "",
           .help = "samples in a microbatch, instead of --microbatches",
           .details = "Over all devices together; with --algorithm dapple, on each copy of the pipeline."},
          {"profile-batch", "N", "", "samples per batch when a profile (FILE.txt) was measured"}};
}

ModelRun model_run_of(const Arguments& a) {
  ModelRun run{model_text_of(a), 1};
  require_one_batch(a, run.model);
  if (a.has("microbatches"))
    run.microbatches = static_cast<std::int32_t>(a.integer("microbatches", 1, kMostMicrobatches));
  if (a.has("profile-batch"))
    run.model = with_profile_batch(run.model, a.integer("profile-batch", 1, kMostBatch));
  if (a.has("microbatch")) {
    const std::int64_t size = a.integer("microbatch", 1, kMostBatch);
    if (a.has("batch")) {
      if (a.given("microbatches"))
        throw UsageError("--batch, --microbatch and --microbatches: two of them tell the third");
      run.microbatches = quotient_of(a, "microbatch", size);
    }
    run.model = with_batch(run.model, size);
  } else if (a.has("batch")) {
    run.model = with_batch(run.model, quotient_of(a, "microbatches", run.microbatches));
  }
  return run;
}

SearchBudget search_budget_of(const Arguments& a) {
  SearchBudget budget{0, 0};
  if (a.has("proposals")) budget.proposals = a.integer("proposals", 1, INT64_MAX / 2);
  if (a.given("seconds") || budget.proposals == 0) budget.seconds = a.number("seconds", 0, 1e7);
  return budget;
}

std::vector<std::string> schedules_to_try(const Arguments& arguments) {
  return arguments.given("schedule") ? std::vector{schedule_of(arguments)} : plan_schedules();
}

Recompute recompute_of(const Arguments& arguments) {
  return parse_recompute(arguments.choice("recompute", recompute_names()));
}

std::string profile_note_of(const Arguments& a) {
  return a.has("profile-batch") || !a.has("model") ? "" : profile_note(model_text_of(a));
}

std::int32_t microbatches_of(const ModelRun& run) {
  if (run.microbatches > kMostMicrobatches)
    throw UsageError(fmt::format("{} microbatches, allowed: up to {}", run.microbatches, kMostMicrobatches));
  return run.microbatches;
}

PlanOptions plan_options_of(const Arguments& arguments, const ModelRun& run) {
  PlanOptions options;
  options.optimizer = parse_optimizer(arguments.choice("optimizer", {"sgd", "momentum", "adam"}));
  if (arguments.has("recipe") && !arguments.given("optimizer")) options.optimizer = Optimizer::Adam;
  options.gradient_type =
      parse_data_type(arguments.choice("gradient-type", {"float32", "float16", "bfloat16", "float64"}));
  try {
    options.gradient_piece = parse_bytes(arguments.text("gradient-piece"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--gradient-piece: {}", error.what()));
  }
  options.microbatches = microbatches_of(run);
  options.recompute = recompute_of(arguments);
  options.state_sharding = state_sharding_of(arguments);
  options.gathered_inputs = parse_gathered_inputs(arguments.choice("gathered-inputs", {"keep", "again"}));
  options.gradient_reduction =
      parse_gradient_reduction(arguments.choice("gradient-reduction", {"overlapped", "after-steps"}));
  options.imbalance = imbalance_of(arguments);
  return options;
}

}  // namespace pipesim
