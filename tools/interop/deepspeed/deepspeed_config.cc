#include "tools/interop/deepspeed/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "tools/interop/settings/known_settings.h"
#include "tools/interop/settings/settings.h"

// The keys are those of DeepSpeed's page "DeepSpeed Configuration JSON" and of its configuration classes
// (deepspeed/runtime/config.py, deepspeed/runtime/zero/config.py) up to 0.19.

namespace pipesim {
namespace {

using Effect = KnownSettings::Effect;

constexpr KnownSettings kDeepspeedKeys[] = {
    {Effect::Used,
     "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps zero_optimization.stage "
     "zero_optimization.mics_shard_size communication_data_type bf16.enabled bfloat16.enabled fp16.enabled "
     "data_types.grad_accum_dtype fp16.fp16_master_weights_and_grads bf16.bf16_master_weights_and_grads "
     "bf16.bf16_optimizer_states "
     "optimizer.type optimizer.params.momentum optimizer.params.torch_adam tensor_parallel.autotp_size "
     "sequence_parallel_size "
     "pipeline.stages pipeline.activation_checkpoint_interval expert_parallel.enabled "
     "expert_parallel.autoep_size"},
    {Effect::None,
     "optimizer.params.* optimizer.legacy_fusion scheduler.* gradient_clipping prescale_gradients "
     "gradient_predivide_factor steps_per_print wall_clock_breakdown dump_state memory_breakdown seed "
     "fp16.auto_cast fp16.loss_scale fp16.loss_scale_window fp16.initial_scale_power fp16.hysteresis "
     "fp16.consecutive_hysteresis fp16.min_loss_scale bf16.check_grad_overflow bf16.immediate_grad_update "
     "flops_profiler.* tensorboard.* wandb.* csv_monitor.* comet.* monitor_config.* comms_logger.* "
     "checkpoint.* "
     "autotuning.* aio.* zero_allow_untested_optimizer zero_force_ds_cpu_optimizer dataloader_drop_last "
     "zero_optimization.elastic_checkpoint zero_optimization.load_from_fp32_weights "
     "zero_optimization.ignore_unused_parameters zero_optimization.stage3_gather_16bit_weights_on_model_save "
     "zero_optimization.stage3_gather_fp16_weights_on_model_save zero_optimization.legacy_stage1 "
     "zero_optimization.grad_hooks zero_optimization.log_trace_cache_warnings "
     "zero_optimization.use_all_reduce_for_fetch_params "
     // Plans gather a layer at a time.
     "zero_optimization.allgather_bucket_size zero_optimization.stage3_prefetch_bucket_size "
     "zero_optimization.stage3_max_live_parameters "
     "zero_optimization.allgather_partitions zero_optimization.contiguous_gradients "
     "zero_optimization.round_robin_gradients zero_optimization.memory_efficient_linear "
     "activation_checkpointing.profile activation_checkpointing.number_checkpoints "
     "activation_checkpointing.synchronize_checkpoint_boundary pipeline.partition pipeline.seed_layers "
     "expert_parallel.expert_tensor_parallel_size tensor_parallel.tp_overlap_comm elasticity.* data_types "
     "curriculum_learning.curriculum_type curriculum_learning.schedule_type"},
    {Effect::NotModelled, "zero_optimization.offload_optimizer.device zero_optimization.cpu_offload",
     "the optimizer's state stays on the devices, and so does its update"},
    {Effect::NotModelled, "zero_optimization.offload_param.device zero_optimization.cpu_offload_params",
     "weights stay on the devices"},
    {Effect::None,
     "zero_optimization.offload_optimizer.* zero_optimization.offload_param.* "
     "zero_optimization.cpu_offload_use_pin_memory"},
    {Effect::NotModelled, "zero_optimization.overlap_comm", "reductions of pipelines follow their steps",
     "true"},
    {Effect::NotModelled, "zero_optimization.reduce_bucket_size", "--runtime deepspeed:buckets=… says it",
     "500000000"},
    {Effect::NotModelled, "zero_optimization.sub_group_size", "--runtime deepspeed:step-part=… says it",
     "1000000000"},
    {Effect::NotModelled, "zero_optimization.stage3_max_reuse_distance",
     "--runtime deepspeed:reuse-distance=… says it", "1000000000"},
    {Effect::NotModelled, "zero_optimization.stage3_param_persistence_threshold",
     "small weights are gathered as all others", "10000.0"},
    {Effect::NotModelled, "zero_optimization.zero_hpz_partition_size",
     "weights are gathered from all copies in backward, too", "1"},
    {Effect::NotModelled,
     "zero_optimization.zero_quantized_weights zero_optimization.zero_quantized_nontrainable_weights "
     "zero_optimization.zero_quantized_gradients",
     "weights and gradients travel in their own types"},
    {Effect::NotModelled, "zero_optimization.mics_hierarchical_params_gather",
     "weights are gathered at once"},
    {Effect::NotModelled, "zero_optimization.reduce_scatter", "sums are scattered to their owners", "true"},
    {Effect::NotModelled, "activation_checkpointing.partition_activations",
     "each device keeps inputs of layers whole, but for what sp divides"},
    {Effect::NotModelled, "activation_checkpointing.cpu_checkpointing",
     "inputs of layers stay on the devices"},
    {Effect::NotModelled, "activation_checkpointing.contiguous_memory_optimization",
     "no buffer is kept for inputs"},
    {Effect::NotModelled, "communication_data_type",
     "gradients travel in the type in which they are summed up"},
    {Effect::NotModelled, "sparse_gradients sparse_attention.mode", "nothing is sparse"},
    {Effect::None, "sparse_attention.*"},
    {Effect::NotModelled, "amp.enabled", "types are those of the program's arguments"},
    {Effect::None, "amp.*"},
    {Effect::NotModelled, "torch_autocast.enabled", "types are those of the program's arguments"},
    {Effect::None, "torch_autocast.*"},
    {Effect::NotModelled, "curriculum_learning.enabled data_efficiency.enabled",
     "sequences are as long as the longest, and no token is dropped"},
    {Effect::None, "curriculum_learning.* data_efficiency.*"},
    {Effect::NotModelled, "progressive_layer_drop.enabled", "no layer is dropped"},
    {Effect::None, "progressive_layer_drop.*"},
    {Effect::NotModelled, "compression_training.*", "nothing is compressed"},
    {Effect::NotModelled, "quantize_training.*", "products are in the model's type"},
    {Effect::NotModelled, "hybrid_engine.enabled", "no token is generated"},
    {Effect::None, "hybrid_engine.* eigenvalue.* nebula.* weight_quantization.*"},
    {Effect::NotModelled, "compile.*", "kernels are fused as usual"},
    {Effect::NotModelled, "disable_allgather", "weights are gathered by all-gathers"},
};

Setting setting_of(const nlohmann::json& value, const std::string& path, const std::string& name) {
  using Kind = Setting::Kind;
  Setting setting{.path = path, .place = name};
  if (value.is_boolean()) {
    setting.kind = Kind::Truth;
    setting.text = value.get<bool>() ? "true" : "false";
  } else if (value.is_number()) {
    setting.kind = Kind::Number;
    setting.text = value.is_number_integer() ? value.dump() : fmt::format("{}", value.get<double>());
  } else if (value.is_string()) {
    setting.kind = Kind::Text;
    setting.text = value.get<std::string>();
  } else if (value.is_array()) {
    setting.kind = Kind::List;
    for (const nlohmann::json& item : value)
      setting.items.push_back({path, name, Kind::Text, item.dump(), {}});
  }
  return setting;
}

// The value of a setting that whoever starts DeepSpeed fills in.
constexpr std::string_view kFilledIn = "auto";

void add_settings(const nlohmann::json& object, const std::string& before, int depth, Settings& to) {
  constexpr int kDeepest = 16;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && depth < kDeepest) {
      add_settings(value, before + key + ".", depth + 1, to);
    } else if (!(value.is_string() && value == kFilledIn)) {
      to.set(setting_of(value, before + key, to.source()));
    }
  }
}

std::optional<DataType> type_named(const std::string& name) {
  if (name == "fp32" || name == "float32" || name == "float") return DataType::Float32;
  if (name == "fp16" || name == "float16" || name == "half") return DataType::Float16;
  if (name == "bf16" || name == "bfloat16") return DataType::BFloat16;
  return std::nullopt;
}

// deepspeed/runtime/zero/stage_1_and_2.py and base_optimizer.py: main weights are a copy of the weights' part
// in any type.
void read_types_of_state(const Settings& settings, DeepspeedConfig& config) {
  if (settings.is_on("fp16.fp16_master_weights_and_grads")) config.narrow_main = Optimizer::Main::Float16;
  if (settings.is_on("bf16.bf16_master_weights_and_grads")) config.narrow_main = Optimizer::Main::BFloat16;
  if (settings.is_on("bf16.bf16_optimizer_states")) config.narrow_moments = DataType::BFloat16;
}

void read_optimizer(const Settings& settings, DeepspeedConfig& config) {
  const std::string written = settings.text("optimizer.type").value_or("");
  if (written.empty()) return;
  std::string name = written;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const auto tell = [&](const char* what) {
    config.left_out.push_back(fmt::format("{}: optimizer.type: {} {}", settings.source(), written, what));
  };
  if (has("sgd")) {
    config.optimizer =
        settings.real("optimizer.params.momentum").value_or(0) > 0 ? Optimizer::Momentum : Optimizer::Sgd;
  } else if (has("muon") || has("lion")) {
    config.optimizer = has("muon") ? Optimizer::Muon : Optimizer::Lion;
  } else {
    config.optimizer = Optimizer::Adam;
    config.torch_adam = settings.is_on("optimizer.params.torch_adam");
    if (name != "adam" && name != "adamw" && name != "fusedadam") tell("is taken as Adam");
  }
}

}  // namespace

bool is_deepspeed_config(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false, true);
  if (!json.is_object()) return false;
  const std::initializer_list<const char*> marks{"zero_optimization", "train_batch_size",
                                                 "train_micro_batch_size_per_gpu"};
  return std::ranges::any_of(marks, [&](const char* mark) { return json.contains(mark); });
}

std::optional<DeepspeedConfig> read_deepspeed_config(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false, true);
  if (!json.is_object()) return std::nullopt;
  Settings settings(name);
  add_settings(json, "", 0, settings);
  DeepspeedConfig config;
  std::vector<std::string> told;
  tell_settings(settings, kDeepspeedKeys, "DeepSpeed", told);
  for (const std::string& what : told) config.left_out.push_back(name + ": " + what);
  config.samples = settings.count("train_batch_size");
  config.microbatch = settings.count("train_micro_batch_size_per_gpu");
  config.accumulation = settings.count("gradient_accumulation_steps");
  config.zero_stage = settings.count("zero_optimization.stage", 0);
  constexpr std::int64_t kStages = 3;
  if (config.zero_stage && *config.zero_stage > kStages)
    settings.fail("zero_optimization.stage",
                  fmt::format("found {}, allowed: 0, 1, 2, 3", *config.zero_stage));
  const auto group = settings.count("zero_optimization.mics_shard_size", -1);
  if (group && *group > 0) config.shard_group = group;
  config.tensor = settings.count("tensor_parallel.autotp_size", 0);
  config.sequence = settings.count("sequence_parallel_size");
  config.pipeline = settings.count("pipeline.stages");
  if (settings.is_on("expert_parallel.enabled"))
    config.expert = settings.count("expert_parallel.autoep_size");
  config.checkpoint_interval = settings.count("pipeline.activation_checkpoint_interval", 0).value_or(0);
  config.tunes_recomputation = json.contains("activation_checkpointing");
  if (settings.is_on("fp16.enabled")) config.type = DataType::Float16;
  if (settings.is_on("bf16.enabled") || settings.is_on("bfloat16.enabled")) config.type = DataType::BFloat16;
  if (const auto sums = settings.text("data_types.grad_accum_dtype")) {
    config.gradient_type = type_named(*sums);
    if (!config.gradient_type)
      settings.fail("data_types.grad_accum_dtype",
                    fmt::format("found \"{}\", allowed: fp32, fp16, bf16", *sums));
  }
  const auto travels = settings.text("communication_data_type");
  if (travels && travels != settings.text("data_types.grad_accum_dtype"))
    config.left_out.push_back(name +
                              ": communication_data_type: gradients travel in the type in which they are "
                              "summed up");
  read_optimizer(settings, config);
  read_types_of_state(settings, config);
  return config;
}

}  // namespace pipesim
