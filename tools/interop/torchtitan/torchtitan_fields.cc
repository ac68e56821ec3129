#include "tools/interop/torchtitan/torchtitan_fields.h"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "tools/interop/torchtitan/torchtitan_model.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"

namespace pipesim {
namespace {

// Collects fields.
class FieldWriter {
 public:
  void number(const char* path, std::int64_t value) {
    fields_.push_back({path, fmt::format("{}", value), false});
  }
  void word(const char* path, std::string_view value) { fields_.push_back({path, std::string(value), true}); }
  void truth(const char* path, bool value) { code(path, value ? "True" : "False"); }
  void words(const char* path, std::initializer_list<std::string_view> values) {
    fields_.push_back({path, fmt::format("[\"{}\"]", fmt::join(values, "\", \"")), false});
  }
  void code(const char* path, const char* value) { fields_.push_back({path, value, false}); }
  std::vector<TorchtitanField> take() && { return std::move(fields_); }

 private:
  std::vector<TorchtitanField> fields_;
};

void write_torchtitan_pipeline(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  w.number("parallelism.pipeline_parallel_degree", r.pipeline);
  if (r.pipeline == 1) return;
  w.word("parallelism.pipeline_parallel_schedule", torchtitan_schedule_name(r));
  if (takes_torchtitan_steps(r)) w.word("parallelism.pipeline_parallel_schedule_csv", kTorchtitanSchedule);
  if (!takes_toml(plan)) return w.number("parallelism.num_pp_microbatches", plan.microbatches());
  if (r.schedule == kDualPipeV) w.truth("parallelism.pipeline_parallel_expert_parallel_overlap", true);
  w.number("parallelism.pipeline_parallel_microbatch_size", r.microbatch);
}

void write_torchtitan_parallelism(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  const std::int64_t sharded =
      !s.any() ? 1 : (s.group > 0 ? static_cast<std::int64_t>(s.group) : plan.copies()) / r.context;
  w.number("parallelism.data_parallel_replicate_degree", r.data / sharded);
  w.number("parallelism.data_parallel_shard_degree", sharded);
  if (s.any())
    w.word("parallelism.fsdp_reshard_after_forward",
           s.reshard == StateSharding::Reshard::Always ? "always" : "never");
  w.number("parallelism.tensor_parallel_degree", r.tensor);
  if (!takes_toml(plan))
    w.truth("parallelism.enable_sequence_parallel", r.sequence_parallel || r.tensor == 1);
  if (takes_toml(plan)) w.truth("parallelism.enable_async_tensor_parallel", r.tensor_overlap.value_or(false));
  w.number("parallelism.context_parallel_degree", r.context);
  if (takes_toml(plan) && r.context > 1)
    w.word("parallelism.context_parallel_rotate_method", r.ring ? "alltoall" : "allgather");
  w.number("parallelism.expert_parallel_degree", r.expert);
  write_torchtitan_pipeline(plan, w);
}

// With a pipeline, a device's batch is that of all its microbatches in 0.2, and of one on the main branch;
// without a pipeline, gradients accumulate.
void write_torchtitan_batch(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  const std::int64_t sequence = plan.sizes.sequence;
  if (takes_toml(plan)) {
    w.number("training.local_batch_size", r.pipeline > 1 ? r.microbatch * plan.microbatches() : r.microbatch);
    w.number("training.global_batch_size", plan.samples);
    w.number("training.seq_len", sequence);
  } else {
    w.number("training.num_tokens_per_microbatch_per_dp_rank", r.microbatch * sequence);
    w.number("training.num_tokens_per_train_step", plan.samples * sequence);
    w.number("training.max_context_length", sequence);
    // CUDA graphs are on by default, and refused with pipelines and with the usual exchange of experts'
    // tokens.
    w.truth("training.disable_cuda_graphs", r.pipeline > 1 || r.expert > 1);
  }
  if (is_all_bfloat16(plan)) w.word("training.dtype", "bfloat16");
  w.word("training.mixed_precision_param", name_of(plan.sizes.type));
  w.word("training.mixed_precision_reduce", "float32");
}

// Plans are rated with compiled kernels. Async tensor parallelism is the compiler's, too.
void write_torchtitan_compile(const FrameworkPlan& plan, FieldWriter& w) {
  if (!takes_toml(plan))
    w.truth("compile.enable_async_tensor_parallel",
            torchtitan_compiles(plan) && plan.recipe.tensor_overlap.value_or(false));
  w.truth("compile.enable", torchtitan_compiles(plan));
  if (torchtitan_compiles(plan)) w.words("compile.components", {"model", "loss"});
}

}  // namespace

bool is_all_bfloat16(const FrameworkPlan& plan) {
  return plan.sizes.type == DataType::BFloat16 &&
         plan.optimizer == Optimizer(Optimizer::Adam, DataType::BFloat16, Optimizer::Main::None);
}

std::vector<TorchtitanField> torchtitan_fields(const FrameworkPlan& plan) {
  FieldWriter w;
  write_torchtitan_parallelism(plan, w);
  write_torchtitan_batch(plan, w);
  if (plan.optimizer == Optimizer(Optimizer::Adam, DataType::BFloat16))
    w.word("optimizer.implementation", kNarrowMoments);
  else if (plan.optimizer_kernel != OptimizerKernel::Fused)
    w.word("optimizer.implementation",
           plan.optimizer_kernel == OptimizerKernel::Foreach ? "foreach" : "for-loop");
  const Recompute& recompute = plan.recipe.recompute;
  const bool full = recompute.kind == Recompute::Kind::Full;
  if (takes_toml(plan)) {
    w.word("activation_checkpoint.mode", full ? "full" : recompute.any() ? "selective" : "none");
    if (recompute.any() && !full)
      w.word("activation_checkpoint.selective_ac_option",
             recompute.kind == Recompute::Kind::Operators ? "op" : fmt::format("{}", recompute.count));
  } else {
    w.code("activation_checkpoint", full              ? "FullAC.Config()"
                                    : recompute.any() ? "SelectiveAC.Config()"
                                                      : "None");
  }
  write_torchtitan_compile(plan, w);
  return std::move(w).take();
}

}  // namespace pipesim
