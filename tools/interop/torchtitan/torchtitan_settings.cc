#include "tools/interop/torchtitan/torchtitan_settings.h"

#include <array>
#include <string_view>
#include <utility>

// torchtitan/config/job_config.py of v0.2.2, earlier releases where they differ, and
// torchtitan/config/configs.py and torchtitan/trainer.py of the main branch at b5bcd76c6.

namespace pipesim {
namespace {

using Effect = KnownSettings::Effect;

constexpr KnownSettings kOfBoth[] = {
    {Effect::Used,
     "model.name model.flavor training.dtype training.mixed_precision_param training.mixed_precision_reduce "
     "parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree "
     "parallelism.fsdp_reshard_after_forward parallelism.tensor_parallel_degree "
     "parallelism.pipeline_parallel_degree parallelism.module_fqns_per_model_part "
     "parallelism.pipeline_parallel_first_stage_less_layers "
     "parallelism.pipeline_parallel_last_stage_less_layers "
     "parallelism.pipeline_parallel_layers_per_stage parallelism.pipeline_parallel_schedule "
     "parallelism.pipeline_parallel_schedule_csv parallelism.context_parallel_degree "
     "parallelism.expert_parallel_degree activation_checkpoint activation_checkpoint.mode "
     "activation_checkpoint.selective_ac_option compile.enable compile.components optimizer.name "
     "optimizer.implementation"},
    {Effect::None,
     "training.max_norm training.steps training.gc_freq training.gc_debug compile.backend "
     "comm.init_timeout_seconds comm.train_timeout_seconds comm.trace_buf_size comm.save_traces_folder "
     "comm.save_traces_file_prefix debug.seed debug.deterministic_warn_only debug.print_config "
     "debug.save_config_file debug.enable_structured_logging "
     "lr_scheduler.warmup_steps lr_scheduler.total_steps lr_scheduler.decay_ratio lr_scheduler.decay_type "
     "lr_scheduler.min_lr_factor lr_scheduler.lr_min optimizer.lr optimizer.beta1 optimizer.beta2 "
     "optimizer.eps "
     "optimizer.weight_decay activation_checkpoint.early_stop activation_checkpoint.preserve_rng_state "
     "activation_checkpoint.determinism_check activation_checkpoint.debug "
     "activation_checkpoint.visualize_memory_budget_pareto "
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
     // Load is balanced in plans anyway, and sequences are divided so that all parts do equal work.
     "debug.moe_force_load_balance parallelism.context_parallel_load_balancer"},
    {Effect::Refused, "training.enable_cpu_offload", "state moved to the host"},
    {Effect::NotModelled, "comm.mode", "devices communicate", "default"},
    {Effect::NotModelled, "debug.deterministic", "kernels are the fastest, not deterministic ones"},
    {Effect::NotModelled, "optimizer.early_step_in_backward", "weights change when backward is done"},
    {Effect::NotModelled, "activation_checkpoint.memory_budget", "nothing is computed again for it", "0.5"},
};

constexpr KnownSettings kOfToml[] = {
    {Effect::Used,
     "training.local_batch_size training.global_batch_size training.seq_len "
     "parallelism.enable_async_tensor_parallel parallelism.pipeline_parallel_microbatch_size "
     "parallelism.context_parallel_rotate_method parallelism.expert_tensor_parallel_degree model.converters "
     "parallelism.pipeline_parallel_expert_parallel_overlap experimental.custom_import "
     "model.arguments.known model.arguments.rope_theta model.arguments.norm_eps model.arguments.rope_factor "
     "model.arguments.beta_slow model.arguments.beta_fast model.arguments.original_seq_len "
     "model.arguments.mscale model.arguments.rope_scaling_args.scaling_factor "
     "model.arguments.rope_scaling_args.low_freq_factor model.arguments.rope_scaling_args.high_freq_factor "
     "model.arguments.rope_scaling_args.original_max_position_embeddings"},
    {Effect::None,
     "job.config_file job.dump_folder job.description job.print_config job.save_config_file "
     "job.use_for_integration_test job.print_args profiling.enable_profiling profiling.save_traces_folder "
     "profiling.profile_freq profiling.profiler_active profiling.profiler_warmup "
     "profiling.enable_memory_snapshot profiling.save_memory_snapshot_folder metrics.log_freq "
     "metrics.enable_tensorboard metrics.disable_color_printing metrics.save_tb_folder "
     "metrics.save_for_all_ranks metrics.enable_wandb model.hf_assets_path model.tokenizer_path "
     "model.print_after_conversion training.dataset training.dataset_path training.seed "
     "training.debug_moe_force_load_balance training.dataloader.num_workers "
     "training.dataloader.persistent_workers training.dataloader.pin_memory "
     "training.dataloader.prefetch_factor "
     "checkpoint.enable checkpoint.enable_ft_dataloader_checkpoints checkpoint.folder checkpoint.interval "
     "checkpoint.initial_load_path checkpoint.initial_load_model_only checkpoint.initial_load_in_hf "
     "checkpoint.initial_load_in_hf_quantized checkpoint.last_save_model_only checkpoint.last_save_in_hf "
     "checkpoint.export_dtype checkpoint.async_mode checkpoint.keep_latest_k checkpoint.load_step "
     "checkpoint.exclude_from_loading checkpoint.enable_first_step_checkpoint "
     "checkpoint.create_seed_checkpoint "
     "checkpoint.load_only checkpoint.enable_checkpoint checkpoint.initial_load_model_weights_only "
     "checkpoint.last_save_model_weights_only checkpoint.model_weights_only checkpoint.interval_type "
     "memory_estimation.enable memory_estimation.disable_fake_mode memory_estimation.enabled "
     "validation.enable validation.dataset validation.dataset_path validation.local_batch_size "
     "validation.seq_len validation.freq validation.steps validation.dataloader.num_workers "
     "validation.dataloader.persistent_workers validation.dataloader.pin_memory "
     "validation.dataloader.prefetch_factor "
     "quantize.linear.float8.filter_fqns quantize.linear.mx.filter_fqns float8.filter_fqns mx.filter_fqns "
     "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice mx.use_fp8_dim1_cast_triton_kernel "
     "quantize.grouped_mm.mx.recipe_name"},
    {Effect::NotModelled, "training.deterministic", "kernels are the fastest, not deterministic ones"},
    {Effect::NotModelled, "job.custom_config_module experimental.custom_args_module",
     "keys of its own are not known"},
    {Effect::NotModelled, "parallelism.disable_loss_parallel",
     "the loss is divided by words as tp divides them"},
    {Effect::NotModelled, "parallelism.expert_parallel_comm_backend", "tokens are exchanged by all-to-all",
     "standard"},
    {Effect::NotModelled, "parallelism.enable_compiled_autograd", "backward is compiled as usual"},
    {Effect::NotModelled, "parallelism.pipeline_parallel_split_points",
     "stages are as even as torchtitan 0.2 makes them"},
    {Effect::NotModelled,
     "quantize.linear.float8.enable_fsdp_float8_all_gather "
     "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp float8.enable_fsdp_float8_all_gather "
     "float8.precompute_float8_dynamic_scale_for_fsdp",
     "weights travel in the type of products without float8"},
    {Effect::NotModelled, "float8.force_recompute_fp8_weight_in_bwd", "weights in float8 are kept"},
    {Effect::NotModelled,
     "quantize.linear.float8.recipe_name float8.recipe_name quantize.linear.mx.recipe_name mx.recipe_name",
     "scales cost nothing, however they are found"},
    {Effect::NotModelled, "quantize.linear.float8.emulate float8.emulate",
     "products are those of the hardware"},
    {Effect::NotModelled, "quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns",
     "experts multiply as model.converters says for all layers"},
    {Effect::NotModelled, "fault_tolerance.enable", "nothing fails, and replicas step together"},
    {Effect::None,
     "fault_tolerance.process_group fault_tolerance.process_group_timeout_ms fault_tolerance.replica_id "
     "fault_tolerance.group_size fault_tolerance.min_replica_size fault_tolerance.semi_sync_method "
     "fault_tolerance.sync_steps fault_tolerance.should_quantize fault_tolerance.fragment_sync_delay "
     "fault_tolerance.fragment_update_alpha fault_tolerance.num_fragments"},
};

constexpr KnownSettings kOfMain[] = {
    {Effect::Used,
     "class model_spec model_spec.0 model_spec.flavor model_spec.converters "
     "training.num_tokens_per_microbatch_per_dp_rank training.num_tokens_per_train_step "
     "training.max_context_length parallelism.enable_sequence_parallel parallelism.num_pp_microbatches "
     "compile.enable_async_tensor_parallel optimizer loss "
     "model_spec.model.layers.each.attention.rope.theta model_spec.model.layers.each.attention.rope.scaling "
     "model_spec.model.layers.each.attention.rope.scaling_factor "
     "model_spec.model.layers.each.attention.rope.low_freq_factor "
     "model_spec.model.layers.each.attention.rope.high_freq_factor "
     "model_spec.model.layers.each.attention.rope.original_max_position_embeddings "
     "model_spec.model.layers.each.attention.rope.rope_factor "
     "model_spec.model.layers.each.attention.rope.beta_slow "
     "model_spec.model.layers.each.attention.rope.beta_fast "
     "model_spec.model.layers.each.attention.rope.original_seq_len model_spec.model.traverse.each.eps"},
    {Effect::None,
     "training training.disable_cuda_graphs parallelism compile debug debug.spmd_typechecking "
     "debug.detect_anomaly debug.batch_invariant parallelism.spmd_backend hf_assets_path dump_folder "
     "profiler.* "
     "metrics.* tokenizer.* dataloader.* lr_scheduler.* checkpoint.* validator.* comm.* "
     // Those of the loss are told under "loss"; those of an optimizer's parameters change no sizes.
     "loss.* optimizer.* activation_checkpoint.* parallelism.context_parallel_ptrr_mask_key "
     "parallelism.pipeline_parallel_schedule_csv.* "
     "model_spec.attn_backend model_spec.model.traverse.0 "
     "model_spec.model.layers.each.attention.rope.max_context_length.*"},
    {Effect::NotModelled, "parallelism.enable_fsdp_symm_mem", "gathers take as long as NCCL's"},
    {Effect::NotModelled, "model_spec.tp_gemm_backend", "products and transfers of tp take turns", "default"},
    {Effect::NotModelled, "model_spec.moe_comm_backend", "tokens are exchanged by all-to-all", "standard"},
    {Effect::NotModelled, "model_spec.non_blocking_capacity_factor", "experts take what they are given"},
    {Effect::NotModelled, "model_spec.num_mtp_layers", "the plan predicts one token"},
    {Effect::NotModelled, "override.*", "modules are torchtitan's own"},
};

template <std::size_t A, std::size_t B>
std::array<KnownSettings, A + B> together(const KnownSettings (&one)[A], const KnownSettings (&other)[B]) {
  std::array<KnownSettings, A + B> all;
  for (std::size_t i = 0; i < A + B; ++i) all[i] = i < A ? one[i] : other[i - A];
  return all;
}

}  // namespace

std::span<const KnownSettings> torchtitan_keys(bool main) {
  static const auto of_main = together(kOfBoth, kOfMain);
  static const auto of_toml = together(kOfBoth, kOfToml);
  return main ? std::span<const KnownSettings>(of_main) : std::span<const KnownSettings>(of_toml);
}

void rename_older_keys(Settings& settings) {
  static constexpr std::pair<std::string_view, const char*> kOlder[] = {
      {"training.batch_size", "training.local_batch_size"},
      {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
      {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
      {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
      {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
      {"training.compile", "compile.enable"},
      {"training.warmup_steps", "lr_scheduler.warmup_steps"},
      {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
      {"experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"},
      {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
      {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
      {"experimental.pipeline_parallel_schedule_csv", "parallelism.pipeline_parallel_schedule_csv"},
      {"experimental.pipeline_parallel_split_points", "parallelism.pipeline_parallel_split_points"},
      {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"},
      {"experimental.enable_compiled_autograd", "parallelism.enable_compiled_autograd"},
      {"optimizer.fused", "optimizer.implementation"},
  };
  for (const auto& [old, now] : kOlder) settings.rename(old, now);
}

}  // namespace pipesim
