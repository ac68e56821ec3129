#include "tools/interop/torchtitan/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "taskgraph/plan/pipeline.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_files.h"
#include "tools/interop/torchtitan/torchtitan_model.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"

// The fields are those of torchtitan/config/configs.py, and of config/job_config.py in 0.2, of which
// tests/tools/interop/documented/torchtitan.txt lists names and values. How they place stages and take
// steps is in torchtitan/distributed/pipeline_parallel.py, and in PyTorch's
// torch/distributed/pipelining/schedules.py.

namespace pipesim {
namespace {

constexpr std::string_view kTorchtitanTitle = "torchtitan";

void refuse_torchtitan_optimizer(const FrameworkPlan& plan, RuleCheck& check) {
  const Optimizer& o = plan.optimizer;
  const bool narrow = o == Optimizer(Optimizer::Adam, DataType::BFloat16);
  if (o == Optimizer::Adam || is_all_bfloat16(plan) || (narrow && !takes_toml(plan))) return;
  check.refuse([&] {
    return Refusal{fmt::format("--optimizer {}", o.str()),
                   o.kind != Optimizer::Adam ? "its optimizers are Adam and AdamW"
                   : narrow                  ? "optimizer.implementation fused_opt_states_bf16 came after 0.2"
                            : "state is in float32; or moments are in bfloat16; or, with training.dtype "
                              "bfloat16, moments, and weights without a copy",
                   [](FrameworkPlan& p) { p.optimizer = Optimizer::Adam; }};
  });
}

void refuse_torchtitan_model(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.sizes.type == DataType::Float16)
    check.refuse([&] {
      return Refusal{"dtype=float16", "training.mixed_precision_param is bfloat16 or float32", {}};
    });
  if (plan.gradient_type != DataType::Float32)
    check.refuse([&] {
      return Refusal{fmt::format("--gradient-type {}", name_of(plan.gradient_type)),
                     "training.mixed_precision_reduce is float32",
                     [](FrameworkPlan& p) { p.gradient_type = DataType::Float32; }};
    });
  refuse_torchtitan_optimizer(plan, check);
}

void refuse_torchtitan_schedule(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const ScheduleKind& kind = schedule_kind(r.schedule_name());
  const auto change = [](FrameworkPlan& changed) { changed.recipe.schedule.clear(); };
  if (kind.pairs && !kind.both_ways && kind.name != kDualPipeV)
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(), "dualpipe-v alone runs forward beside backward",
                     change};
    });
  if (r.pipeline == 1) return;
  if (kind.weights != WeightChange::AfterIteration)
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(), "weights change once an iteration", change};
    });
  if (kind.both_ways)
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(),
                     "a stage is on one group of devices for all microbatches", change};
    });
  if (r.tensor_overlap.value_or(false) && !torchtitan_compiles(plan))
    check.refuse([&] {
      return Refusal{"tp-overlap with schedule=" + r.schedule_name(),
                     "async tensor parallelism is for compiled modules, whose backward is one step",
                     amend_recipe([](Recipe& recipe) { recipe.tensor_overlap.reset(); })};
    });
  const StageMessages usual = usual_messages(MessageOverlap::UnlessPlain, r.schedule_name());
  if (r.messages.value_or(usual) != usual)
    check.refuse([&] {
      return Refusal{fmt::format("messages={} with schedule={}", name_of(*r.messages), r.schedule_name()),
                     usual == StageMessages::Beside ? "its steps do not wait for what they send"
                                                    : "steps of 1f1b wait for what they send and receive",
                     amend_recipe([](Recipe& recipe) { recipe.messages.reset(); })};
    });
  if (kind.name != kDualPipeV) return;
  // The stages stay where they are.
  const auto one_by_one = [](FrameworkPlan& changed) { changed.recipe.schedule = kZeroBubbleV; };
  if (r.expert == 1)
    check.refuse([&] {
      return Refusal{fmt::format("schedule={} without ep", kDualPipeV),
                     "its DualPipeV runs forward beside backward only where there is expert parallelism",
                     one_by_one};
    });
  if (r.expert > 1 && r.recompute.any())
    check.refuse([&] {
      return Refusal{fmt::format("schedule={} with recompute={}", kDualPipeV, r.recompute.str()),
                     "its DualPipeV runs forward beside backward only where nothing is computed again",
                     one_by_one};
    });
}

void refuse_torchtitan_order(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.order == kUsualOrder) return;
  Recipe usual = plan.recipe;
  usual.order = kUsualOrder;
  if (order_text(plan.recipe) == order_text(usual)) return;
  check.refuse([&] {
    return Refusal{"order=" + order_text(plan.recipe), "its mesh has the order tp-cp-ep-dp-pp",
                   amend_recipe([](Recipe& recipe) { recipe.order = kUsualOrder; })};
  });
}

// Shards weights as PyTorch's FSDP2 does, over all copies or over neighbouring ones.
void shard_weights(Recipe& recipe) {
  const std::int32_t group = recipe.state_sharding.group;
  using enum StateSharding::Reshard;
  recipe.state_sharding = {.kind = StateSharding::Kind::Weights,
                           .group = group,
                           .reshard = recipe.pipeline > 1 ? Last : Always,
                           .wide_weights = true};
}

void refuse_torchtitan_sharding(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  using Kind = StateSharding::Kind;
  const bool narrow = plan.sizes.type != DataType::Float32;
  const bool whole = is_all_bfloat16(plan);
  if (plan.copies() == 1) {
    if (narrow && !whole && (r.tensor > 1 || r.pipeline > 1))
      check.refuse([&] {
        return Refusal{"dp1",
                       "16-bit compute with tp or pp comes with FSDP, which needs two copies of a weight",
                       amend_recipe([](Recipe& recipe) {
                         std::int64_t& halved = recipe.pipeline > 1 ? recipe.pipeline : recipe.tensor;
                         recipe.data = halved % 2 == 0 ? 2 : halved;
                         halved /= recipe.data;
                         recipe.sequence_parallel = recipe.sequence_parallel && recipe.tensor > 1;
                         if (recipe.pipeline == 1) recipe.chunks = 1;
                         if (recipe.pipeline == 1) recipe.schedule.clear();
                         shard_weights(recipe);
                       })};
      });
    return;
  }
  if (s.kind == Kind::Optimizer || s.kind == Kind::Gradients)
    check.refuse([&] {
      return Refusal{fmt::format("zero{}", static_cast<int>(s.kind)),
                     "its data parallelism divides weights as FSDP2 does, or nothing",
                     amend_recipe(shard_weights)};
    });
  if (s.wide_weights && whole)
    check.refuse([&] {
      return Refusal{"weights=float32", "with training.dtype bfloat16 weights are kept in bfloat16",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.wide_weights = false; })};
    });
  if (s.kind == Kind::Weights && narrow && !s.wide_weights && !whole)
    check.refuse([&] {
      return Refusal{"zero3 without weights=float32",
                     "FSDP2 keeps float32 weights and gathers them in training.mixed_precision_param",
                     amend_recipe(shard_weights)};
    });
  if (s.kind == Kind::Weights && r.pipeline > 1 && s.each_microbatch())
    check.refuse([&] {
      return Refusal{
          "zero3 without reshard=last or gradients=whole",
          "its pipelines reduce gradients when the last microbatch is through",
          amend_recipe([](Recipe& recipe) { recipe.state_sharding.reshard = StateSharding::Reshard::Last; })};
    });
  if (s.kind == Kind::Weights && r.pipeline == 1 && !s.each_microbatch())
    check.refuse([&] {
      return Refusal{s.whole_gradients ? "gradients=whole" : "reshard=last",
                     "without a pipeline, every microbatch scatters its gradients",
                     amend_recipe(shard_weights)};
    });
  if (s.wide_gathers && narrow)
    check.refuse([&] {
      return Refusal{"gather=float32", "weights are gathered in the type that they are used in",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.wide_gathers = false; })};
    });
  if (s.prefetch != 1)
    check.refuse([&] {
      return Refusal{fmt::format("prefetch={}", s.prefetch), "no field counts layers to gather ahead",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.prefetch = 1; })};
    });
  // A shard group of one copy divides nothing, which is no FSDP.
  if ((!s.any() || s.group == 1) && plan.copies() > 1 && (r.tensor > 1 || r.pipeline > 1 || r.context > 1))
    check.refuse([&] {
      return Refusal{fmt::format("dp{} without FSDP", r.data), "its DDP goes with no other parallelism",
                     amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding.group = 0;
                       shard_weights(recipe);
                     })};
    });
  if (s.group > 0 && (s.group % r.context != 0 || plan.copies() % s.group != 0))
    check.refuse([&] {
      return Refusal{fmt::format("shard={}", s.group),
                     fmt::format("data_parallel_shard_degree x cp{} copies divide weights", r.context),
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.group = 0; })};
    });
}

void refuse_torchtitan_splits(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const std::int64_t parts = r.tensor * (r.context > 1 ? 2 * r.context : 1);
  if (plan.sizes.sequence % parts != 0)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with cp{}", r.tensor, r.context),
                     fmt::format("training.seq_len must be a multiple of tp x 2 cp, {}, and is {}", parts,
                                 plan.sizes.sequence),
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.context;
                       recipe.context = recipe.ulysses = 1;
                       recipe.ring = false;
                     })};
    });
  if (plan.sizes.tied && r.pipeline > 1)
    check.refuse([&] {
      return Refusal{fmt::format("pp{} with a tied projection", r.pipeline),
                     "its pipelines share no weight between stages", amend_recipe(leave_out_pipeline)};
    });
  if (!plan.sizes.latent && plan.sizes.kv_heads % r.tensor != 0)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with {} heads of keys", r.tensor, plan.sizes.kv_heads),
                     "tp divides heads of keys and values",
                     amend_recipe([heads = plan.sizes.kv_heads](Recipe& recipe) {
                       const std::int64_t kept = std::gcd(recipe.tensor, heads);
                       recipe.data *= recipe.tensor / kept;
                       recipe.tensor = kept;
                       recipe.sequence_parallel = recipe.sequence_parallel && kept > 1;
                     })};
    });
  if (r.ulysses > 1)
    check.refuse([&] {
      return Refusal{fmt::format("ulysses={}", r.ulysses), "context parallelism divides sequences, not heads",
                     amend_recipe([](Recipe& recipe) { recipe.ulysses = 1; })};
    });
  if (r.expert > 1 && r.expert_tensor_degree() != 1)
    check.refuse([&] {
      return Refusal{fmt::format("etp{}", r.expert_tensor_degree()),
                     "with expert parallelism an expert is whole on its device",
                     amend_recipe([](Recipe& recipe) { recipe.expert_tensor = 1; })};
    });
  if (r.expert == 1 && plan.sizes.experts && r.expert_tensor_degree() != r.tensor)
    check.refuse([&] {
      return Refusal{fmt::format("etp{} with tp{}", r.expert_tensor_degree(), r.tensor),
                     "without expert parallelism, tp divides experts as all else",
                     amend_recipe([](Recipe& recipe) { recipe.expert_tensor = 0; })};
    });
  using enum Recompute::Kind;
  const bool by_layer = r.recompute.kind == Every && takes_toml(plan);
  if (r.recompute.any() && r.recompute.kind != Full && r.recompute.kind != Operators && !by_layer)
    check.refuse([&] {
      return Refusal{"recompute=" + r.recompute.str(),
                     takes_toml(plan)
                         ? "activation_checkpoint.mode is none, full, or selective, which is op or "
                           "a number of layers such as every:2"
                         : "activation_checkpoint is none, FullAC, or SelectiveAC, which is op",
                     amend_recipe([](Recipe& recipe) { recipe.recompute = {Full}; })};
    });
  if (r.gathered && (r.sequence_parallel || r.context > 1))
    check.refuse([&] {
      return Refusal{fmt::format("gathered={}", name_of(*r.gathered)), "no field says which inputs are kept",
                     amend_recipe([](Recipe& recipe) { recipe.gathered.reset(); })};
    });
}

void check_torchtitan_recipe(const FrameworkPlan& plan, RuleCheck& check) {
  check.check(plan, {refuse_torchtitan_schedule, refuse_torchtitan_order, refuse_torchtitan_sharding,
                     refuse_torchtitan_splits, refuse_torchtitan_version});
}

std::vector<FrameworkSetting> torchtitan_settings(const FrameworkPlan& plan) {
  std::vector<FrameworkSetting> settings;
  for (const TorchtitanField& field : torchtitan_fields(plan)) settings.push_back({field.path, field.value});
  return settings;
}

std::vector<std::string> torchtitan_notes(const FrameworkPlan& plan) {
  std::vector<std::string> notes{
      chosen_by_code(fmt::format("init_deviation={}", plan.sizes.init_deviation), kTorchtitanTitle)};
  note_balance_loss(plan, kTorchtitanTitle, notes);
  note_products(plan, kTorchtitanTitle, notes);
  if (!torchtitan_compiles(plan))
    notes.push_back(
        fmt::format("the plan's time is that of compiled kernels, which PyTorch refuses with schedule={}: "
                    "compile.enable is off",
                    plan.recipe.schedule_name()));
  return notes;
}

}  // namespace

Framework torchtitan_framework() {
  using enum StateSharding::Reshard;
  const auto fsdp = [](StateSharding::Reshard reshard, bool whole) {
    return StateSharding{.kind = StateSharding::Kind::Weights,
                         .reshard = reshard,
                         .whole_gradients = whole,
                         .wide_weights = true};
  };
  return {.name = "torchtitan",
          .title = kTorchtitanTitle,
          .check_recipe = check_torchtitan_recipe,
          .check_model = refuse_torchtitan_model,
          .check_export = refuse_torchtitan_definition,
          .files = torchtitan_files,
          .settings = torchtitan_settings,
          .notes = torchtitan_notes,
          .versions = torchtitan_versions,
          .runtime = "torch-compile:segments=expandable",  // run_train.sh: PYTORCH_ALLOC_CONF
          .kept = "torch-compile",
          .usual = {.allows = {},
                    .shardings = {StateSharding(), fsdp(Always, false), fsdp(Never, false)},
                    .in_pipelines = {StateSharding(), fsdp(Always, true), fsdp(Last, false)},
                    .recomputes = {Recompute(), {Recompute::Kind::Operators}, {Recompute::Kind::Full}},
                    .reduction = {}},
          // torchtitan/models/utils.py counts 6 for each parameter beside embeddings and
          // 6·L·a·(D_qk + D_v)·s, a token. Parameters of norms are left out here.
          .flops = {.causal = FlopsCounting::CausalAttention::Full, .documents_apart = false}};
}

}  // namespace pipesim
