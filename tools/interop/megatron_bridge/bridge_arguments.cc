#include "tools/interop/megatron_bridge/bridge_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "sim/base/suggest.h"
#include "tools/interop/megatron/megatron_flags.h"

// The settings are those of ConfigContainer (src/megatron/bridge/training/config.py) and of the classes that
// it holds, of the main branch at 067f987df0.

namespace pipesim {
namespace {

struct BridgeName {
  std::string_view path, flag;
  std::string_view when = {};  ///< the only value that asks for the flag, which takes none; "": any
};

// Others have the argument's name.
constexpr std::array kBridgeNames = std::to_array<BridgeName>({
    {"model.virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
    {"model.num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
    {"model.num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
    {"model.num_moe_experts", "--num-experts"},
    {"model.gated_linear_unit", "--swiglu", "true"},
    {"model.add_bias_linear", "--disable-bias-linear", "false"},
    {"model.share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights", "false"},
    {"model.layernorm_epsilon", "--norm-epsilon"},
    {"model.rope_scaling", "--use-rope-scaling", "true"},
    {"model.seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    {"model.fp8", "--fp8-format"},
    {"mixed_precision.fp8", "--fp8-format"},
    {"mixed_precision.fp8_recipe", "--fp8-recipe"},
    {"mixed_precision.fp4", "--fp4-format"},
    {"mixed_precision.first_last_layers_bf16", "--first-last-layers-bf16", "true"},
    {"mixed_precision.num_layers_at_start_in_bf16", "--num-layers-at-start-in-bf16"},
    {"mixed_precision.num_layers_at_end_in_bf16", "--num-layers-at-end-in-bf16"},
    {"mixed_precision.bf16", "--bf16", "true"},
    {"mixed_precision.fp16", "--fp16", "true"},
    {"mixed_precision.grad_reduce_in_fp32", "--grad-reduce-in-bf16", "false"},
    {"ddp.grad_reduce_in_fp32", "--grad-reduce-in-bf16", "false"},
    {"dataset.sequence_length", "--seq-length"},
    {"optimizer.main_grads_dtype", "--main-grads-dtype"},
    {"optimizer.params_dtype", ""},
    {"train.global_batch_size", "--global-batch-size"},
});

// Sections that change neither time nor memory of an iteration, and settings without an argument that don't.
constexpr std::array kWithoutEffect = std::to_array<std::string_view>({
    "scheduler.",
    "checkpoint.",
    "logger.",
    "rng.",
    "validation.",
    "ft.",
    "straggler.",
    "nvrx_straggler.",
    "profiling.",
    "env_vars.",
    "inprocess_restart.",
    "rerun_state_machine.",
    "tensor_inspect.",
    "dist.",
    "optimizer_config_override_provider.",
    "class",
    "mixed_precision.0",
    "model.0",
    "model.pipeline_dtype",
    "model.params_dtype",
    "model.autocast_dtype",
    "model.enable_autocast",
    "model.perform_initialization",
    "model.init_method",
    "model.output_layer_init_method",
    "model.embedding_init_method",
    "model.should_pad_vocab",
    "model.generation_config",
    "model.transformer_layer_spec",
    "model.hf_model_id",
    "model.parallel_output",
    "model.activation_func",
    "model.deallocate_pipeline_outputs",
    "model.timers",
    "model.finalize_model_grads_func",
    "model.grad_scale_func",
    "model.no_sync_func",
    "model.grad_sync_func",
    "model.param_sync_func",
    "model.scatter_embedding_sequence_parallel",
    "model.batch_p2p_comm",
    "model.batch_p2p_sync",
    "model.variable_seq_lengths",
    "model.use_cpu_initialization",
    "model.cpu_offloading",
    "model.restore_modelopt_state",
    "model.use_transformer_engine_full_layer_spec",
    "model.gradient_accumulation_fusion",
    "model.apply_rope_fusion",
    "model.masked_softmax_fusion",
    "model.bias_activation_fusion",
    "model.bias_dropout_fusion",
    "model.fused_single_qkv_rope",
    "model.fp16_lm_cross_entropy",
    "model.cross_entropy_loss_fusion",
    "model.cross_entropy_fusion_impl",
    "model.persist_layer_norm",
    "model.moe_permute_fusion",
    "model.moe_router_fusion",
    "model.moe_grouped_gemm",
    "model.use_te_rng_tracker",
    "model.bootstrap_pg_from_head",
    "model.yaml_cfg",
    "model.extra_init_kwargs.",
    "ddp.check_for_nan_in_grad",
    "ddp.check_for_large_grads",
    "ddp.average_in_collective",
    "ddp.bucket_size",
    "ddp.pad_buckets_for_high_nccl_busbw",
    "ddp.align_param_gather",
    "ddp.fp8_param_gather",
    "ddp.keep_fp8_transpose_cache",
    "ddp.suggested_communication_unit_size",
    "train.train_iters",
    "train.train_samples",
    "train.eval_iters",
    "train.eval_interval",
    "train.manual_gc",
    "train.manual_gc_interval",
    "train.manual_gc_eval",
    "train.exit_interval",
    "train.exit_duration_in_mins",
    "train.exit_signal_handler",
    "train.exit_signal",
    "train.skip_train",
    "train.empty_unused_memory_level",
    "train.check_weight_hash_across_dp_replicas_interval",
    "train.decrease_batch_size_if_needed",
    "train.skip_sync_grad_norm_across_mp",
    "train.check_optimizer_step_success",
    "train.iterations_to_skip",
    "optimizer.lr",
    "optimizer.min_lr",
    "optimizer.weight_decay",
    "optimizer.adam_beta1",
    "optimizer.adam_beta2",
    "optimizer.adam_eps",
    "optimizer.clip_grad",
    "optimizer.decoupled_lr",
    "optimizer.decoupled_min_lr",
    "optimizer.log_num_zeros_in_grad",
    "optimizer.bf16",
    "optimizer.fp16",
    "optimizer.params_dtype",
    "optimizer.loss_scale",
    "optimizer.timers",
    "optimizer.config_logger_dir",
    "optimizer.barrier_with_L1_time",
    "tokenizer.tokenizer_model",
    "tokenizer.use_tokenizer_vocab_size",
    "tokenizer.hf_tokenizer_kwargs.",
    "mixed_precision.params_dtype",
    "mixed_precision.pipeline_dtype",
    "mixed_precision.autocast_dtype",
    "mixed_precision.autocast_enabled",
    "mixed_precision.fp8_margin",
    "mixed_precision.fp8_amax_history_len",
    "mixed_precision.fp8_amax_compute_algo",
    "mixed_precision.loss_scale",
    "mixed_precision.initial_loss_scale",
    "mixed_precision.min_loss_scale",
    "mixed_precision.loss_scale_window",
    "mixed_precision.hysteresis",
    "mixed_precision.fp8_dot_product_attention",
    "mixed_precision.fp8_multi_head_attention",
    "mixed_precision.fp8_wgrad",
    "comm_overlap.tp_comm_overlap_cfg",
    "comm_overlap.bucket_size",
    "comm_overlap.data_parallel_size",
    "comm_overlap.user_comm_overlap_cfg.",
});

bool is_without_effect(const std::string& path) {
  const std::string last = path.substr(path.rfind('.') + 1);
  if (last == "_target_" || last == "_partial_" || last == "_call_" || last == "_name_" || last == "_args_")
    return true;
  return std::ranges::any_of(kWithoutEffect, [&](std::string_view known) {
    return known.ends_with('.') ? path.starts_with(known) || path + "." == known : path == known;
  });
}

// Data is no matter of time and memory, but for the length of sequences.
bool is_of_data(const std::string& path) {
  return path.starts_with("dataset.") && path != "dataset.seq_length" && path != "dataset.sequence_length" &&
         !path.ends_with("packed_sequence_size");
}

class BridgeArguments {
 public:
  BridgeArguments(const Settings& settings, std::vector<std::string>& left_out)
      : settings_(settings), left_out_(left_out) {}

  std::vector<ShellWord> read() {
    for (const Setting& setting : settings_.all()) read_setting(setting);
    return std::move(words_);
  }

 private:
  using Kind = Setting::Kind;

  void read_setting(const Setting& setting) {
    const std::string& path = setting.path;
    if (path == "mixed_precision" && setting.kind != Kind::None) return read_precision(setting);
    if (path.starts_with("peft.") || (path == "peft" && setting.kind != Kind::None))
      settings_.fail(path, "the training of adapters can't be expressed");
    if (setting.kind == Kind::None || setting.kind == Kind::Object || is_without_effect(path) ||
        is_of_data(path))
      return;
    // Graphs that nothing captures.
    if (path.starts_with("model.cuda_graph_") && settings_.text("model.cuda_graph_impl") == "none") return;
    if (path == "model.num_query_groups") add("--group-query-attention", setting, {});
    for (const BridgeName& name : kBridgeNames) {
      if (name.path != path) continue;
      if (!name.when.empty()) return setting.text == name.when ? add(name.flag, setting, {}) : void();
      return add_value(std::string(name.flag), setting);
    }
    std::string flag = "--" + path.substr(path.rfind('.') + 1);
    std::ranges::replace(flag, '_', '-');
    const bool off = setting.kind == Kind::Truth && setting.text == "false";
    const std::string negated = "--no-" + flag.substr(2);
    if (off && megatron_flag(negated) != nullptr) return add(negated, setting, {});
    if (megatron_flag(flag) != nullptr || megatron_alias(flag) != nullptr) return add_value(flag, setting);
    if (off) return;
    left_out_.push_back(fmt::format("{}: no argument of Megatron-LM says that, so it is left out{}", path,
                                    did_you_mean(flag, megatron_flag_names())));
  }

  void add_value(const std::string& flag, const Setting& setting) {
    std::vector<std::string> values;
    switch (setting.kind) {
      case Kind::Truth:
        if (setting.text == "true") add(flag, setting, {});
        return;
      case Kind::Code: {
        const MegatronFlag* const known = megatron_flag(flag);
        if (known != nullptr && known->effect == FlagEffect::None) return;
        // The name of a type, such as torch.float32.
        if (setting.text.starts_with("torch.")) return add(flag, setting, {type_named(setting.text)});
        if (flag == "--vocab-size") {  // the model has its own
          left_out_.push_back(
              fmt::format("{}: {} is no constant, so it is left out", setting.path, setting.text));
          return;
        }
        settings_.fail(setting.path, fmt::format("found {}, which is no constant", setting.text));
      }
      case Kind::List:
        values.push_back(listed(setting, flag == "--moe-layer-freq"));
        if (flag != "--moe-layer-freq") {
          values.clear();
          for (const Setting& item : setting.items) values.push_back(item.text);
        }
        return add(flag, setting, values);
      default:
        return add(flag, setting, {setting.text});
    }
  }
  static std::string type_named(const std::string& text) {
    return text == "torch.float32"    ? "fp32"
           : text == "torch.bfloat16" ? "bf16"
           : text == "torch.float16"  ? "fp16"
           : text == "torch.uint8"    ? "fp8"
                                      : text;
  }
  // "[0,1,1]".
  static std::string listed(const Setting& setting, bool wanted) {
    std::string list;
    for (const Setting& item : setting.items) list += (list.empty() ? "" : ",") + item.text;
    return wanted ? "[" + list + "]" : list;
  }

  // By its name, as "bf16_mixed" or bf16_with_mxfp8_mixed().
  void read_precision(const Setting& setting) {
    const Setting* const asked = settings_.find("mixed_precision.0");  // of a call with the name
    const std::string name = setting.text + (asked == nullptr ? "" : " " + asked->text);
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("bf16")) add("--bf16", setting, {});
    if (has("fp16")) add("--fp16", setting, {});
    if (has("fp8")) add("--fp8-format", setting, {"hybrid"});
    if (has("fp4")) add("--fp4-format", setting, {"e2m1"});
    const char* const recipe = has("mxfp8")             ? "mxfp8"
                               : has("current_scaling") ? "tensorwise"
                               : has("subchannel")      ? "blockwise"
                                                        : nullptr;
    if (recipe != nullptr) add("--fp8-recipe", setting, {recipe});
    if (has("current_scaling")) {
      // megatron/bridge/training/mixed_precision.py: hybrid models have two at each end.
      const std::string layers = has("nemotron_h") || has("nanov2") ? "2" : "1";
      add("--first-last-layers-bf16", setting, {});
      add("--num-layers-at-start-in-bf16", setting, {layers});
      add("--num-layers-at-end-in-bf16", setting, {layers});
    }
    if (!has("bf16") && !has("fp16") && !has("fp8") && !has("fp4") && setting.kind != Kind::Object)
      left_out_.push_back(
          fmt::format("mixed_precision: {} is not known, and products are in float32", setting.str()));
  }

  void add(std::string_view flag, const Setting& setting, const std::vector<std::string>& values) {
    const std::size_t colon = setting.place.rfind(':');
    const std::string file = setting.place.substr(0, colon);
    std::size_t line = 0;
    if (colon != std::string::npos)
      std::from_chars(setting.place.data() + colon + 1, setting.place.data() + setting.place.size(), line);
    words_.push_back({std::string(flag), file, line});
    for (const std::string& value : values) words_.push_back({value, file, line});
  }

  const Settings& settings_;
  std::vector<std::string>& left_out_;
  std::vector<ShellWord> words_;
};

}  // namespace

std::vector<ShellWord> bridge_arguments(const Settings& settings, std::vector<std::string>& left_out) {
  return BridgeArguments(settings, left_out).read();
}

}  // namespace pipesim
