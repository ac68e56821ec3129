#include "tools/cli/options/plan_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/shared_options.h"

namespace pipesim {
namespace {

Option recompute_option() {
  return {.name = "recompute",
          .argument = "WHAT",
          .default_value = "none",
          .help = "what is computed again in backward instead of kept",
          .details =
              "none: everything that backward needs is kept. selective: attention. full: everything but "
              "the inputs of each layer; full:4, of the first 4 layers of each stage; uniform:4, of each "
              "4 layers together; every:2, of every second layer. op: all of a layer but attention and "
              "every second product. stage: everything but the inputs of each stage of the pipeline. "
              "Modules of layers, with + between them: core_attn, mlp, moe, moe_act, layernorm, "
              "mla_up_proj, shared_experts."};
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
          "lets 8 neighbouring copies divide it, and other eights hold it again; reshard=never (zero3) keeps "
          "gathered weights from forward to backward, reshard=last until the last backward of the iteration, "
          "with gradients that are reduced once, as PyTorch's pipelines run FSDP; gradients=whole (zero3) "
          "reduces gradients once, too, but gathers weights for each use; prefetch=2 gathers two layers "
          "ahead instead of one; "
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

// How a recipe says what an option says.
std::string part_of_recipe(const std::string& option, const std::string& value) {
  if (option == "stages") return "pp4";
  if (option == "chunks") return "vpp2";
  if (option == "state-sharding") return value;
  return fmt::format("{}={}", option == "gathered-inputs" ? "gathered" : option, value);
}

Option optimizer_option() {
  Option option{
      .name = "optimizer",
      .argument = "NAME",
      .default_value = "momentum",
      .help = "the optimizer: its state in memory and its update",
      .details =
          "Parts may follow, separated by commas. moments=TYPE: moments are in bfloat16, float16 or float8 "
          "instead of float32; adam takes two, as in moments=float8+float16. main=WHAT: what is kept beside "
          "weights of 16 bits, instead of a float32 copy: a copy in bfloat16 or float16; remainder, the 16 "
          "bits of a float32 that a bfloat16 weight lacks; none, so that the weights themselves are "
          "changed."};
  for (const OptimizerKind& kind : optimizer_kinds())
    option.choices.push_back({std::string(kind.name), std::string(kind.summary)});
  return option;
}

Optimizer optimizer_of(const Arguments& arguments) {
  try {
    return parse_optimizer(arguments.text("optimizer"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--optimizer: {}", error.what()));
  }
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

std::vector<Option> weight_options() {
  return {optimizer_option(),
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

std::vector<std::string> schedules_to_try(const Arguments& arguments) {
  return arguments.given("schedule") ? std::vector{schedule_of(arguments)} : plan_schedules();
}

Recompute recompute_of(const Arguments& arguments) {
  try {
    return parse_recompute(arguments.text("recompute"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--{}", error.what()));
  }
}

PlanOptions plan_options_of(const Arguments& arguments, const ModelRun& run) {
  PlanOptions options;
  options.optimizer = optimizer_of(arguments);
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
