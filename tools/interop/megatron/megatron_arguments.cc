#include "tools/interop/megatron/megatron_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tools/interop/megatron/megatron_model.h"
#include "tools/interop/megatron/megatron_optimizer.h"
#include "tools/interop/megatron/megatron_runtime.h"

// The arguments are those of megatron/training/arguments.py, of which
// tests/tools/interop/documented/megatron.txt lists names and values, by version.

namespace pipesim {
namespace {

// The minor number of Megatron core with which its own FSDP came.
constexpr int kMegatronFsdp = 14;

// "Et*10|t*10|t*10L"; layers that predict further tokens, "m", lie with the loss.
std::string layout_of(const std::vector<std::int64_t>& layers, std::int64_t further_tokens) {
  std::string layout = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    if (stage > 0) layout += "|";
    if (layers[stage] == 1) layout += "t";
    if (layers[stage] > 1) layout += fmt::format("t*{}", layers[stage]);
  }
  return layout + std::string(static_cast<std::size_t>(further_tokens), 'm') + "L";
}

void write_megatron_stages(const FrameworkPlan& plan, MegatronWriter& w) {
  const Recipe& r = plan.recipe;
  w.add("--pipeline-model-parallel-size", r.pipeline);
  if (r.pipeline == 1) return;
  const bool even = std::ranges::all_of(
      plan.layers, [&](std::int64_t of_stage) { return of_stage == plan.layers.front(); });
  if (!even && megatron_version(plan).number >= kMegatronLayout)
    return w.add("--pipeline-model-parallel-layout", layout_of(plan.layers, plan.sizes.further_tokens));
  if (!even) {
    const std::vector<std::int64_t> layers = layers_of_megatron_ranks(plan).value();
    w.add("--decoder-first-pipeline-num-layers", layers.front());
    w.add("--decoder-last-pipeline-num-layers", layers.back());
  }
  if (r.chunks > 1) w.add("--num-virtual-stages-per-pipeline-rank", r.chunks);
}

void write_megatron_parallelism(const FrameworkPlan& plan, MegatronWriter& w) {
  const Recipe& r = plan.recipe;
  w.add("--tensor-model-parallel-size", r.tensor);
  if (r.sequence_parallel) w.flag("--sequence-parallel");
  w.add("--context-parallel-size", r.context);
  if (r.context > 1) {
    const bool both = r.ulysses > 1 && r.ulysses < r.context;
    w.add("--cp-comm-type", both ? "a2a+p2p" : r.ulysses > 1 ? "a2a" : r.ring ? "p2p" : "all_gather");
    if (both) w.add("--hierarchical-context-parallel-sizes", r.ulysses, r.context / r.ulysses);
  }
  write_megatron_stages(plan, w);
  if (runs_megatron_beside(r)) w.flag("--overlap-moe-expert-parallel-comm");
  if (r.pipeline > 1 && (in_megatron_groups(r) || runs_megatron_beside(r)))
    w.add("--microbatch-group-size-per-virtual-pipeline-stage", schedule_number(r.schedule_name()));
  if (r.messages == StageMessages::Blocking && r.chunks > 1) w.flag("--no-overlap-p2p-communication");
  if (plan.sizes.experts) {
    w.add("--expert-model-parallel-size", r.expert);
    w.add("--expert-tensor-parallel-size", r.expert_tensor_degree());
  }
  Recipe usual = r;
  usual.order = kUsualOrder;
  if (order_text(r) != order_text(usual)) w.flag("--use-tp-pp-dp-mapping");
  if (r.tensor_overlap.value_or(false) && r.sequence_parallel) w.flag("--tp-comm-overlap");
  write_megatron_graphs(plan, w);
}

void write_megatron_optimizer(const FrameworkPlan& plan, MegatronWriter& w) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  write_megatron_state(plan, w);
  if (plan.sizes.type == DataType::BFloat16 && plan.gradient_type == DataType::BFloat16)
    w.flag("--grad-reduce-in-bf16");
  if (plan.sizes.type != DataType::Float32 && plan.gradient_type == DataType::Float32)
    w.flag("--accumulate-allreduce-grads-in-fp32");
  if (r.reduction == GradientReduction::Overlapped || (s.each_microbatch() && s.overlaps_gather))
    w.flag("--overlap-grad-reduce");
  if (!s.any()) return;
  w.flag("--use-distributed-optimizer");
  if (s.overlaps_gather) w.flag("--overlap-param-gather");
  if (s.group > 0 && s.group < plan.copies())
    w.add("--num-distributed-optimizer-instances", plan.copies() / s.group);
  if (!shards_megatron_gradients(r)) return;
  const bool renamed = megatron_version(plan).number >= kMegatronFsdp;
  w.flag(renamed ? "--use-megatron-fsdp" : "--use-custom-fsdp");
  w.add("--data-parallel-sharding-strategy",
        s.kind == StateSharding::Kind::Weights ? "optim_grads_params" : "optim_grads");
  w.flag("--no-gradient-accumulation-fusion");
  if (renamed) w.add("--ckpt-format", "fsdp_dtensor");
}

void write_megatron_batch(const FrameworkPlan& plan, MegatronWriter& w) {
  w.add("--micro-batch-size", plan.recipe.microbatch);
  w.add("--global-batch-size", plan.samples);
  const Recompute& recompute = plan.recipe.recompute;
  if (recompute.kind == Recompute::Kind::Modules) {
    w.add("--recompute-granularity", "selective");
    std::vector<std::string> modules;
    for (std::size_t m = 0; m < kRecomputeModules; ++m) {
      if (recompute.has(static_cast<RecomputeModule>(m)))
        modules.emplace_back(name_of(static_cast<RecomputeModule>(m)));
    }
    w.add_all("--recompute-modules", modules);
  }
  if (recompute.of_layers()) {
    w.add("--recompute-granularity", "full");
    w.add("--recompute-method", recompute.kind == Recompute::Kind::First ? "block" : "uniform");
    w.add("--recompute-num-layers", std::max<std::int64_t>(1, recompute.count));
  }
}

}  // namespace

bool in_megatron_groups(const Recipe& recipe) {
  return schedule_kind(recipe.schedule_name()).name == "interleaved-groups";
}

bool runs_megatron_beside(const Recipe& recipe) {
  return schedule_kind(recipe.schedule_name()).name == "interleaved-beside";
}

bool shards_megatron_gradients(const Recipe& recipe) { return recipe.state_sharding.each_microbatch(); }

std::optional<std::vector<std::int64_t>> layers_of_megatron_ranks(const FrameworkPlan& plan) {
  const auto ranks = static_cast<std::size_t>(plan.recipe.pipeline);
  std::vector<std::int64_t> layers(plan.layers.begin(), plan.layers.begin() + plan.recipe.pipeline);
  for (std::size_t stage = ranks; stage < plan.layers.size(); ++stage) {
    if (plan.layers[stage] != layers[stage % ranks]) return std::nullopt;
  }
  for (std::size_t rank = 2; rank + 1 < ranks; ++rank) {
    if (layers[rank] != layers[1]) return std::nullopt;
  }
  for (std::int64_t& of_rank : layers) of_rank *= plan.recipe.chunks;
  return layers;
}

std::vector<MegatronArgument> megatron_arguments(const FrameworkPlan& plan) {
  MegatronWriter writer;
  write_megatron_model(plan, writer);
  write_megatron_parallelism(plan, writer);
  write_megatron_optimizer(plan, writer);
  write_megatron_batch(plan, writer);
  return std::move(writer).take();
}

}  // namespace pipesim
