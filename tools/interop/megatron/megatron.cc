#include "tools/interop/megatron/megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tools/interop/megatron/megatron_arguments.h"
#include "tools/interop/megatron/megatron_files.h"
#include "tools/interop/megatron/megatron_model.h"
#include "tools/interop/megatron/megatron_optimizer.h"

// The arguments are those of megatron/training/arguments.py, of which
// tests/tools/interop/documented/megatron.txt lists names and values, by version.

namespace pipesim {
namespace {

// The minor number of Megatron core on its main branch.
constexpr int kMegatronMain = 20;
// From this core on, further tokens are predicted of divided sequences, too.
constexpr int kFurtherTokensOfParts = 14;

// The checks of TransformerConfig's own; full recompute would repeat what runs beside.
void refuse_megatron_beside(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const auto refuse = [&](const char* why) {
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(), why,
                     amend_recipe([](Recipe& recipe) { recipe.schedule.clear(); })};
    });
  };
  if (plan.recipe.expert > 1 && megatron_version(plan).number < kMegatronBeside)
    refuse("--overlap-moe-expert-parallel-comm came with core 0.14");
  if (r.expert == 1) refuse("it runs forward beside backward where ep divides experts");
  if (r.pipeline > 1 && r.chunks == 1) refuse("it runs forward beside backward where there is vpp");
  if (r.recompute.of_layers()) refuse("it runs forward beside backward of layers that are kept");
}

void refuse_megatron_schedule(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const std::string schedule = r.schedule_name();
  if (runs_megatron_beside(r)) return refuse_megatron_beside(plan, check);
  if (r.pipeline == 1) return;
  if (schedule != "1f1b" && schedule != "interleaved" && !in_megatron_groups(r))
    check.refuse([&] {
      return Refusal{"schedule=" + schedule, "its pipelines run 1f1b, or interleaved where there is vpp",
                     amend_recipe([](Recipe& recipe) { recipe.schedule.clear(); })};
    });
}

void refuse_megatron_order(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.order == kUsualOrder) return;
  Recipe usual = plan.recipe, pipeline_first = plan.recipe;
  usual.order = kUsualOrder;
  pipeline_first.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Expert, MeshAxis::Pipeline,
                          MeshAxis::Data};
  const std::string order = order_text(plan.recipe);
  if (order == order_text(usual) || order == order_text(pipeline_first)) return;
  check.refuse([&] {
    return Refusal{"order=" + order,
                   "ranks are in the order tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp with --use-tp-pp-dp-mapping",
                   amend_recipe([](Recipe& recipe) { recipe.order = kUsualOrder; })};
  });
}

void refuse_megatron_context(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.context == 1) return;
  const auto undivided = [](Recipe& recipe) {
    recipe.data *= recipe.context;
    recipe.context = recipe.ulysses = 1;
    recipe.ring = false;
  };
  if (plan.sizes.further_tokens > 0 && megatron_version(plan).number < kFurtherTokensOfParts)
    check.refuse([&] {
      return Refusal{fmt::format("cp{} with further_tokens={}", r.context, plan.sizes.further_tokens),
                     "before core 0.14, --mtp-num-layers goes without --context-parallel-size",
                     amend_recipe(undivided)};
    });
  if (plan.sizes.sequence % (2 * r.context) != 0)
    check.refuse([&] {
      return Refusal{fmt::format("cp{}", r.context),
                     fmt::format("--seq-length must be a multiple of 2 x cp, and is {}", plan.sizes.sequence),
                     amend_recipe(undivided)};
    });
  if (r.ulysses > 1 && r.ulysses < r.context && !r.ring)
    check.refuse([&] {
      return Refusal{fmt::format("ulysses={} of cp{} with gathered keys", r.ulysses, r.context),
                     "--cp-comm-type a2a+p2p passes keys and values round in a ring",
                     amend_recipe([](Recipe& recipe) { recipe.ring = true; })};
    });
}

void refuse_megatron_sharding(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  if (shards_megatron_gradients(r) && r.pipeline > 1)
    check.refuse([&] {
      return Refusal{fmt::format("zero{} with pp{}", static_cast<int>(s.kind), r.pipeline),
                     "its FSDP is documented with tp, cp and ep alone, and --use-distributed-optimizer is "
                     "zero1",
                     amend_recipe([](Recipe& recipe) {
                       const std::int32_t group = recipe.state_sharding.group;
                       recipe.state_sharding = {.kind = StateSharding::Kind::Optimizer, .group = group};
                     })};
    });
  if (s.wide_weights && plan.sizes.type != DataType::Float32)
    check.refuse([&] {
      return Refusal{"weights=float32", "weights are kept in the model's type, with a float32 copy",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.wide_weights = false; })};
    });
  if (s.wide_gathers && plan.sizes.type != DataType::Float32)
    check.refuse([&] {
      return Refusal{"gather=float32", "weights travel in the model's type",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.wide_gathers = false; })};
    });
  if (s.reshard != StateSharding::Reshard::Always)
    check.refuse([&] {
      return Refusal{s.reshard == StateSharding::Reshard::Last ? "reshard=last" : "reshard=never",
                     "no argument keeps what its FSDP has gathered", amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding.reshard = StateSharding::Reshard::Always;
                     })};
    });
  if (s.whole_gradients)
    check.refuse([&] {
      return Refusal{"zero3,gradients=whole", "its FSDP scatters the gradients of every microbatch",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.whole_gradients = false; })};
    });
  if (s.prefetch != 1)
    check.refuse([&] {
      return Refusal{fmt::format("prefetch={}", s.prefetch), "no argument counts layers to gather ahead",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.prefetch = 1; })};
    });
}

void refuse_megatron_overlap(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.state_sharding.overlaps_gather && r.reduces_once() && r.reduction != GradientReduction::Overlapped)
    check.refuse([&] {
      return Refusal{"overlap=gather without reduce=overlapped",
                     "--overlap-param-gather needs --overlap-grad-reduce",
                     amend_recipe([](Recipe& recipe) { recipe.reduction = GradientReduction::Overlapped; })};
    });
  if (r.tensor_overlap.value_or(false) && !r.sequence_parallel)
    check.refuse([&] {
      return Refusal{"tp-overlap without sp", "--tp-comm-overlap needs --sequence-parallel",
                     amend_recipe([](Recipe& recipe) { recipe.tensor_overlap.reset(); })};
    });
}

void refuse_megatron_messages(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.pipeline == 1 || !r.messages) return;
  const auto unsaid = amend_recipe([](Recipe& recipe) { recipe.messages.reset(); });
  if (*r.messages == StageMessages::Beside && r.chunks == 1)
    check.refuse([&] {
      return Refusal{"messages=beside without vpp", "its 1f1b waits for messages; interleaved stages do not",
                     unsaid};
    });
  if (*r.messages == StageMessages::Blocking && r.chunks > 1 && r.pipeline == 2)
    check.refuse([&] {
      return Refusal{
          fmt::format("messages=blocking with pp{},vpp{}", r.pipeline, r.chunks),
          "--no-overlap-p2p-communication of interleaved stages needs more than 2 groups of devices", unsaid};
    });
}

void refuse_megatron_experts(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (!plan.sizes.experts) return;
  if (r.tensor > 1 && !r.sequence_parallel)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} without sp", r.tensor),
                     "models with experts need --sequence-parallel where there is tp",
                     amend_recipe([](Recipe& recipe) { recipe.sequence_parallel = true; })};
    });
  if (r.expert > 1 && plan.sizes.type == DataType::Float16)
    check.refuse([&] {
      return Refusal{fmt::format("ep{}", r.expert), "expert parallelism is refused with --fp16",
                     amend_recipe([](Recipe& recipe) { recipe.expert = 1, recipe.expert_tensor = 0; })};
    });
}

void refuse_megatron_recompute(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  using enum Recompute::Kind;
  if (r.recompute.kind == Stage || r.recompute.kind == Operators || r.recompute.kind == Every)
    check.refuse([&] {
      return Refusal{
          "recompute=" + r.recompute.str(),
          "--recompute-granularity is full, of the first layers or of groups of them, or selective, "
          "of modules",
          amend_recipe([](Recipe& recipe) { recipe.recompute = {Full}; })};
    });
  constexpr int kSharedExperts = 15;
  if (r.recompute.has(RecomputeModule::SharedExperts) && megatron_version(plan).number < kSharedExperts)
    check.refuse([&] {
      return Refusal{"recompute=" + r.recompute.str(),
                     "shared_experts of --recompute-modules came with core 0.15",
                     amend_recipe([](Recipe& recipe) { recipe.recompute = {Full}; })};
    });
  if (r.gathered && (r.sequence_parallel || r.context > 1))
    check.refuse([&] {
      return Refusal{"gathered=keep", "inputs that forward gathered are gathered again for backward",
                     amend_recipe([](Recipe& recipe) { recipe.gathered.reset(); })};
    });
}

void refuse_megatron_model(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.gradient_type != DataType::Float32 && plan.gradient_type != plan.sizes.type)
    check.refuse([&] {
      return Refusal{fmt::format("--gradient-type {}", name_of(plan.gradient_type)),
                     "gradients are in float32, or in the model's type",
                     [](FrameworkPlan& p) { p.gradient_type = DataType::Float32; }};
    });
  if (plan.sizes.biases == DecoderSizes::Biases::Attention)
    check.refuse([&] {
      return Refusal{
          "attention_bias=all", "--add-qkv-bias adds biases to queries, keys and values alone", {}};
    });
}

void refuse_megatron_types(const FrameworkPlan& plan, RuleCheck& check) {
  check.check(plan, {refuse_megatron_model, refuse_megatron_optimizer});
}

void refuse_megatron_stages(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.pipeline == 1 || megatron_version(plan).number >= kMegatronLayout ||
      layers_of_megatron_ranks(plan))
    return;
  check.refuse([&] {
    return Refusal{fmt::format("stages of {} layers", fmt::join(plan.layers, ", ")),
                   "stages of other layers than the first and the last rank's are for "
                   "--pipeline-model-parallel-layout, which came with core 0.13",
                   amend_recipe([](Recipe& recipe) {
                     recipe.first.reset(), recipe.last.reset(), recipe.layers.clear();
                   })};
  });
}

void check_megatron_recipe(const FrameworkPlan& plan, RuleCheck& check) {
  check.check(plan, {refuse_megatron_schedule, refuse_megatron_order, refuse_megatron_context,
                     refuse_megatron_sharding, refuse_megatron_overlap, refuse_megatron_messages,
                     refuse_megatron_experts, refuse_megatron_recompute, refuse_megatron_groups,
                     refuse_megatron_stages, refuse_megatron_state});
}

std::vector<FrameworkSetting> megatron_settings(const FrameworkPlan& plan) {
  std::vector<FrameworkSetting> settings;
  for (const MegatronArgument& argument : megatron_arguments(plan))
    settings.push_back({argument.flag, fmt::format("{}", fmt::join(argument.values, " "))});
  return settings;
}

// Modules are those that its recipes for models with experts or latents run again; models without these have
// none of them.
std::vector<Recompute> megatron_recomputes() {
  using enum RecomputeModule;
  return {Recompute(),
          Recompute::selective(),
          Recompute::of_modules({MoeActivation, LayerNorm, LatentUpProjection}),
          {Recompute::Kind::Full}};
}

// Its Adam is a fused kernel of Transformer Engine or Apex.
std::vector<std::string> megatron_notes(const FrameworkPlan& plan) {
  std::vector<std::string> notes;
  if (plan.optimizer_kernel != OptimizerKernel::Fused) note_optimizer_kernel(plan, "Megatron-LM", notes);
  return notes;
}

}  // namespace

Framework megatron_framework() {
  return {
      .name = "megatron",
      .title = "Megatron-LM",
      .check_recipe = check_megatron_recipe,
      .check_model = refuse_megatron_types,
      .check_export = refuse_megatron_definition,
      .files = megatron_files,
      .settings = megatron_settings,
      .notes = megatron_notes,
      .versions = megatron_versions,
      .runtime = "megatron:gradient-sums=in-products",
      .kept = "megatron",
      .usual = {.allows = {},
                .shardings = RecipeRules::overlapped_shardings(),
                .in_pipelines = RecipeRules::overlapped_shardings(),
                .recomputes = megatron_recomputes(),
                .reduction = GradientReduction::Overlapped,
                .tensor_overlap = true},
      // num_floating_point_operations in megatron/training/training.py, since core 0.12: half of the
      // sequence's square, whatever is packed into it, and no routers. Its padded vocabulary is that of
      // models that are imported; exports fill up to a multiple of tp alone.
      .flops = {.causal = FlopsCounting::CausalAttention::Half, .documents_apart = false, .routers = false}};
}

const std::vector<FrameworkVersion>& megatron_versions() {
  static const std::vector<FrameworkVersion> all{
      {"0.12", "Megatron-LM core 0.12", "core_v0.12.0", 12},
      {"0.13", "Megatron-LM core 0.13", "core_v0.13.0", 13},
      {"0.14", "Megatron-LM core 0.14", "core_v0.14.0", 14},
      {"0.15", "Megatron-LM core 0.15", "core_v0.15.3", 15},
      {"0.16", "Megatron-LM core 0.16", "core_v0.16.1", 16},
      {"0.17", "Megatron-LM core 0.17", "core_v0.17.1", 17},
      {"0.18", "Megatron-LM core 0.18", "core_v0.18.2", 18},
      {"0.19", "Megatron-LM core 0.19", "core_v0.19.0", 19},
      {"main", "Megatron-LM's main branch", "d98e8a64dd of August 2026, core 0.20", kMegatronMain}};
  return all;
}

const FrameworkVersion& megatron_version(const FrameworkPlan& plan) {
  return plan.version.name.empty() ? megatron_versions().back() : plan.version;
}

}  // namespace pipesim
