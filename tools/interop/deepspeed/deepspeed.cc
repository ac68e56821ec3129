#include "tools/interop/deepspeed/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

// The keys are those of DeepSpeed's page "DeepSpeed Configuration JSON" and of its pages on AutoTP, AutoEP,
// Ulysses and pipelines; tests/tools/interop/documented/deepspeed.txt lists them.

namespace pipesim {
namespace {

using DeepspeedJson = nlohmann::ordered_json;
constexpr std::string_view kDeepspeedTitle = "DeepSpeed";
constexpr const char* kDeepspeedConfig = "ds_config.json";
constexpr int kAutoEp = 19;  // the minor number of the release with which expert_parallel came

const FrameworkVersion& deepspeed_version(const FrameworkPlan& plan) {
  return plan.version.name.empty() ? deepspeed_versions().back() : plan.version;
}

// Returns how many layers run again together; 0: none do.
std::int64_t layers_of_checkpoint(const Recipe& recipe) {
  return recipe.recompute.any() ? std::max<std::int64_t>(1, recipe.recompute.count) : 0;
}

// The model is the program's own code, so only expert parallelism depends on DeepSpeed's version.
void refuse_deepspeed_definition(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.expert > 1 && deepspeed_version(plan).number < kAutoEp)
    check.refuse([&] {
      return Refusal{fmt::format("ep{}", plan.recipe.expert), "AutoEP came with DeepSpeed 0.19",
                     amend_recipe([](Recipe& recipe) { recipe.expert = 1, recipe.expert_tensor = 0; })};
    });
}

void refuse_deepspeed_pipeline(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.pipeline == 1 && !r.has_stages()) return;
  if (r.chunks > 1)
    check.refuse([&] {
      return Refusal{fmt::format("vpp{}", r.chunks), "a device has one stage",
                     amend_recipe([](Recipe& recipe) {
                       recipe.chunks = 1;
                       if (recipe.schedule == "interleaved") recipe.schedule.clear();
                     })};
    });
  if (r.chunks == 1 && r.schedule_name() != "1f1b")
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(), "its pipelines run 1f1b",
                     amend_recipe([](Recipe& recipe) { recipe.schedule.clear(); })};
    });
  if (r.state_sharding.kind > StateSharding::Kind::Optimizer)
    check.refuse([&] {
      return Refusal{fmt::format("zero{} with pp{}", static_cast<int>(r.state_sharding.kind), r.pipeline),
                     "ZeRO-2 and ZeRO-3 are incompatible with its pipelines",
                     amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding = {.kind = StateSharding::Kind::Optimizer};
                     })};
    });
  if (r.messages == StageMessages::Beside)
    check.refuse([&] {
      return Refusal{"messages=beside", "its pipelines wait for what they send and receive",
                     amend_recipe([](Recipe& recipe) { recipe.messages.reset(); })};
    });
  if (r.reduction == GradientReduction::Overlapped && !r.state_sharding.each_microbatch())
    check.refuse([&] {
      return Refusal{"reduce=overlapped", "its pipelines reduce gradients when all steps are done",
                     amend_recipe([](Recipe& recipe) { recipe.reduction.reset(); })};
    });
  if (r.tensor > 1)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with pp{}", r.tensor, r.pipeline),
                     "its AutoTP does not split the layers of a PipelineModule",
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.tensor;
                       recipe.tensor = 1;
                       recipe.sequence_parallel = false;
                     })};
    });
  if (r.context > 1)
    check.refuse([&] {
      return Refusal{fmt::format("cp{} with pp{}", r.context, r.pipeline),
                     "its sequence parallelism does not go with a PipelineModule",
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.context;
                       recipe.context = recipe.ulysses = 1;
                       recipe.ring = false;
                     })};
    });
  const auto layers = std::ranges::minmax(plan.layers);
  if (layers.min != layers.max)
    check.refuse([&] {
      return Refusal{fmt::format("stages of {} to {} layers", layers.min, layers.max),
                     "its partition type:… gives each stage as many layers", amend_recipe([](Recipe& recipe) {
                       recipe.first.reset(), recipe.last.reset(), recipe.layers.clear();
                     })};
    });
}

void refuse_deepspeed_order(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.order == kUsualOrder) return;
  Recipe usual = plan.recipe;
  usual.order = kUsualOrder;
  if (order_text(plan.recipe) == order_text(usual)) return;
  check.refuse([&] {
    return Refusal{"order=" + order_text(plan.recipe),
                   "tensor and sequence parallel ranks are neighbours, and stages the most distant",
                   amend_recipe([](Recipe& recipe) { recipe.order = kUsualOrder; })};
  });
}

void refuse_deepspeed_splits(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.sequence_parallel)
    check.refuse([&] {
      return Refusal{"sp", "AutoTP copies norms and residuals",
                     amend_recipe([](Recipe& recipe) { recipe.sequence_parallel = false; })};
    });
  if (r.context > 1 && (r.ulysses != r.context || r.ring))
    check.refuse([&] {
      return Refusal{fmt::format("cp{} that divides the sequence in attention", r.context),
                     "its sequence parallelism is Ulysses, which divides heads there",
                     amend_recipe([](Recipe& recipe) {
                       recipe.ulysses = recipe.context;
                       recipe.ring = false;
                     })};
    });
  if (r.context > 1 && r.tensor > 1)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with cp{}", r.tensor, r.context),
                     "its sequence parallelism does not go with tensor parallelism",
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.tensor;
                       recipe.tensor = 1;
                       recipe.sequence_parallel = false;
                     })};
    });
  if (r.expert > 1 && r.expert_tensor_degree() != 1)
    check.refuse([&] {
      return Refusal{fmt::format("etp{}", r.expert_tensor_degree()),
                     "expert_parallel.expert_tensor_parallel_size is 1",
                     amend_recipe([](Recipe& recipe) { recipe.expert_tensor = 1; })};
    });
  if (r.expert > 1 && r.state_sharding.gathers_to_use())
    check.refuse([&] {
      return Refusal{fmt::format("zero3 with ep{}", r.expert), "AutoEP goes with ZeRO stages 0, 1 and 2",
                     amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding = {.kind = StateSharding::Kind::Gradients};
                     })};
    });
  using enum Recompute::Kind;
  if (r.recompute.any() && r.recompute.kind != Full && r.recompute.kind != Groups)
    check.refuse([&] {
      return Refusal{"recompute=" + r.recompute.str(),
                     "all layers are computed again, one by one or in groups (uniform:2)",
                     amend_recipe([](Recipe& recipe) { recipe.recompute = {Full}; })};
    });
}

// Whether main weights and moments are in bfloat16, as with bf16_optimizer_states.
bool keeps_narrow_state(const Optimizer& optimizer) {
  return optimizer == Optimizer(optimizer.kind, DataType::BFloat16, Optimizer::Main::BFloat16);
}

void refuse_deepspeed_sharding(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  const bool narrow = plan.sizes.type != DataType::Float32;
  const auto reset = [](auto StateSharding::*part) {
    return amend_recipe([part](Recipe& recipe) { recipe.state_sharding.*part = StateSharding().*part; });
  };
  if (s.group > 0 && s.group < plan.copies())
    check.refuse([&] {
      return Refusal{fmt::format("shard={}", s.group), "all copies of a weight divide its state",
                     reset(&StateSharding::group)};
    });
  if (s.wide_weights && narrow)
    check.refuse([&] {
      return Refusal{"weights=float32", "weights are kept in the model's type, with a float32 copy",
                     reset(&StateSharding::wide_weights)};
    });
  if (keeps_narrow_state(plan.optimizer) && !s.any())
    check.refuse([&] {
      return Refusal{fmt::format("--optimizer {} without zero1", plan.optimizer.str()),
                     "bf16_optimizer_states goes with ZeRO stages 1, 2 and 3",
                     [](FrameworkPlan& p) { p.optimizer = Optimizer(p.optimizer.kind); }};
    });
  if (s.wide_gathers && narrow)
    check.refuse([&] {
      return Refusal{"gather=float32", "weights travel in the model's type",
                     reset(&StateSharding::wide_gathers)};
    });
  if (s.reshard != StateSharding::Reshard::Always)
    check.refuse([&] {
      return Refusal{s.reshard == StateSharding::Reshard::Last ? "reshard=last" : "reshard=never",
                     "ZeRO-3 gathers weights for forward and again for backward",
                     reset(&StateSharding::reshard)};
    });
  if (s.whole_gradients)
    check.refuse([&] {
      return Refusal{"zero3,gradients=whole", "ZeRO-3 scatters the gradients of every microbatch",
                     reset(&StateSharding::whole_gradients)};
    });
  if (s.prefetch != 1)
    check.refuse([&] {
      return Refusal{fmt::format("prefetch={}", s.prefetch),
                     "zero_optimization.stage3_prefetch_bucket_size counts elements, not layers",
                     reset(&StateSharding::prefetch)};
    });
  if (s.overlaps_gather)
    check.refuse([&] {
      return Refusal{"overlap=gather", "ZeRO-1 and ZeRO-2 gather weights after the update",
                     reset(&StateSharding::overlaps_gather)};
    });
}

const char* type_name(DataType type) {
  return type == DataType::Float32 ? "fp32" : type == DataType::Float16 ? "fp16" : "bf16";
}

DeepspeedJson optimizer_of(const FrameworkPlan& plan) {
  const Optimizer::Kind kind = plan.optimizer.kind;
  if (kind == Optimizer::Sgd || kind == Optimizer::Momentum)
    return {{"type", "SGD"},
            {"params", {{"lr", 1e-4}, {"momentum", kind == Optimizer::Momentum ? 0.9 : 0.0}}}};
  const char* const type = kind == Optimizer::Lion ? "Lion" : kind == Optimizer::Muon ? "Muon" : "Adam";
  DeepspeedJson json{{"type", type}, {"params", {{"lr", 1e-4}}}};
  if (kind == Optimizer::Adam && plan.optimizer_kernel == OptimizerKernel::Foreach)
    json["params"]["torch_adam"] = true;
  return json;
}

DeepspeedJson deepspeed_config(const FrameworkPlan& plan) {
  const Recipe& r = plan.recipe;
  DeepspeedJson json{{"train_batch_size", plan.samples},
                     {"train_micro_batch_size_per_gpu", r.microbatch},
                     {"gradient_accumulation_steps", plan.microbatches()},
                     {"optimizer", optimizer_of(plan)},
                     {"zero_optimization", {{"stage", static_cast<int>(r.state_sharding.kind)}}}};
  if (r.state_sharding.any()) json["zero_optimization"]["overlap_comm"] = true;
  if (plan.sizes.type == DataType::BFloat16) json["bf16"] = {{"enabled", true}};
  if (keeps_narrow_state(plan.optimizer)) {
    json["bf16"]["bf16_master_weights_and_grads"] = true;
    json["bf16"]["bf16_optimizer_states"] = true;
  }
  if (plan.sizes.type == DataType::Float16) json["fp16"] = {{"enabled", true}};
  json["data_types"] = {{"grad_accum_dtype", type_name(plan.gradient_type)}};
  json["communication_data_type"] = type_name(plan.gradient_type);
  if (r.pipeline > 1)
    json["pipeline"] = {{"stages", r.pipeline},
                        {"partition", "type:layer"},
                        {"activation_checkpoint_interval", layers_of_checkpoint(r)}};
  if (r.tensor > 1) json["tensor_parallel"] = {{"autotp_size", r.tensor}};
  if (r.context > 1) json["sequence_parallel_size"] = r.context;
  if (r.expert > 1)
    json["expert_parallel"] = {{"enabled", true},
                               {"autoep_size", r.expert},
                               {"expert_tensor_parallel_size", r.expert_tensor_degree()}};
  if (r.pipeline == 1 && r.recompute.any())
    json["activation_checkpointing"] = {{"partition_activations", false}};
  return json;
}

// Returns comments on what the program itself must do, as the JSON can't say it.
std::string told_to_the_program(const FrameworkPlan& plan) {
  const Recipe& r = plan.recipe;
  std::string text;
  if (r.pipeline > 1)
    text += fmt::format(
        "# The model is a PipelineModule with num_stages={}, partition_method=\"type:layer\" (the class of a "
        "layer has\n# \"layer\" in its name) and activation_checkpoint_interval={}.\n",
        r.pipeline, layers_of_checkpoint(r));
  if (r.pipeline == 1 && r.recompute.any())
    text += fmt::format("# The model calls deepspeed.checkpointing.checkpoint() for each {}.\n",
                        r.recompute.kind == Recompute::Kind::Full
                            ? "of its layers"
                            : fmt::format("group of {} layers", r.recompute.count));
  if (r.context > 1)
    text += fmt::format(
        "# UlyssesSPAttentionHF.register_with_transformers() gives the model its attention, with "
        "sequence_parallel_size={}, and\n# UlyssesSPDataLoaderAdapter divides its data.\n",
        r.context);
  return text;
}

std::string deepspeed_launch(const FrameworkPlan& plan) {
  const FrameworkVersion& version = deepspeed_version(plan);
  return fmt::format(
      "#!/bin/sh\n# {0}\n# For {1} ({2}). Start it on the first host, with the name of your program: sh "
      "launch.sh "
      "train.py …\n{3}found=$(python3 -c 'from importlib.metadata import version; "
      "print(version(\"deepspeed\"))' 2>/dev/null)\ncase $found${{ANY_VERSION:+any}} in 0.{4}.*|*any) ;; "
      "*)\n  echo "
      "\"$0: found DeepSpeed ${{found:-(none)}}, allowed: 0.{4}; pipesim export --to deepspeed:VERSION "
      "writes for "
      "others, ANY_VERSION=1 starts it all the same\" >&2\n  exit 1\nesac\nhere=$(dirname \"$0\")\ndeepspeed "
      "--hostfile \"$here/hostfile\" --num_nodes {5} --num_gpus {6} \\\n  "
      "\"${{@:?is your program and its arguments}}\" --deepspeed --deepspeed_config \"$here/{7}\"\n",
      plan.recipe.str(), version.title, version.source, told_to_the_program(plan), version.number,
      plan.hosts.names.size(), plan.hosts.devices_of_each, kDeepspeedConfig);
}

void check_deepspeed_recipe(const FrameworkPlan& plan, RuleCheck& check) {
  check.check(plan, {refuse_deepspeed_definition, refuse_deepspeed_pipeline, refuse_deepspeed_order,
                     refuse_deepspeed_splits, refuse_deepspeed_sharding});
}

void check_deepspeed_model(const FrameworkPlan& plan, RuleCheck& check) {
  const Optimizer& o = plan.optimizer;
  if (o.kind == Optimizer::Adam8bit || o.kind == Optimizer::Adafactor)
    check.refuse([&] {
      return Refusal{fmt::format("--optimizer {}", o.str()), "it has Adam, SGD, Lion and Muon",
                     [](FrameworkPlan& p) { p.optimizer = Optimizer::Adam; }};
    });
  const bool narrow =
      o.kind == Optimizer::Adam && keeps_narrow_state(o) && plan.sizes.type == DataType::BFloat16;
  if (o != Optimizer(o.kind) && !narrow)
    check.refuse([&] {
      return Refusal{fmt::format("--optimizer {}", o.str()),
                     "state is in float32, or of Adam and bfloat16 weights all in bfloat16 "
                     "(moments=bfloat16,main=bfloat16)",
                     [](FrameworkPlan& p) { p.optimizer = Optimizer(p.optimizer.kind); }};
    });
}

std::vector<FrameworkSetting> deepspeed_settings(const FrameworkPlan& plan) {
  std::vector<FrameworkSetting> settings;
  const DeepspeedJson flat = deepspeed_config(plan).flatten();
  for (const auto& [path, value] : flat.items()) {
    std::string name = path.substr(1);
    std::ranges::replace(name, '/', '.');
    settings.push_back({std::move(name), value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return settings;
}

std::vector<std::string> deepspeed_notes(const FrameworkPlan& plan) {
  std::vector<std::string> notes;
  note_balance_loss(plan, kDeepspeedTitle, notes);
  note_products(plan, kDeepspeedTitle, notes);
  if (plan.optimizer_kernel == OptimizerKernel::Single) note_optimizer_kernel(plan, kDeepspeedTitle, notes);
  return notes;
}

}  // namespace

Framework deepspeed_framework() {
  return {.name = "deepspeed",
          .title = kDeepspeedTitle,
          .check_recipe = check_deepspeed_recipe,
          .check_model = check_deepspeed_model,
          .check_export = nullptr,
          .files = deepspeed_files,
          .settings = deepspeed_settings,
          .notes = deepspeed_notes,
          .versions = deepspeed_versions,
          .runtime = "deepspeed",
          .kept = "torch-eager",
          .usual = {.allows = {}, .recomputes = {Recompute(), {Recompute::Kind::Full}}, .reduction = {}},
          // Its profiler counts the products that are executed by their shapes, masked pairs too
          // (deepspeed/profiling/flops_profiler/profiler.py, _attn_flops_compute
          // in 0.16.5).
          .flops = {.causal = FlopsCounting::CausalAttention::Full, .documents_apart = false}};
}

const std::vector<FrameworkVersion>& deepspeed_versions() {
  static const std::vector<FrameworkVersion> all{{"0.18", "DeepSpeed 0.18", "v0.18.9", 18},
                                                 {"0.19", "DeepSpeed 0.19", "v0.19.5", kAutoEp}};
  return all;
}

std::vector<ExportedFile> deepspeed_files(const FrameworkPlan& plan) {
  return {{kDeepspeedConfig, deepspeed_config(plan).dump(2) + "\n"},
          {"launch.sh", deepspeed_launch(plan)},
          {"hostfile", host_file(plan.hosts)},
          {"ranks.csv", rank_table(plan.hosts, plan.recipe)}};
}

}  // namespace pipesim
