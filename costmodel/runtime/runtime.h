#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/runtime/cuda_graphs.h"
#include "models/operator.h"
#include "sim/base/units.h"

namespace pipesim {

/// What the process of a device spends on its processor to feed the device; it has one thread.
struct HostTimes {
  Seconds module;      ///< of an operator's forward pass, beside its kernels: modules and their bookkeeping
  Seconds backward;    ///< of an operator's backward pass, beside its kernels
  Seconds kernel;      ///< of a kernel that is launched
  Seconds expert;      ///< of a kernel for each further expert of a device (SeparateKernels::experts)
  Seconds collective;  ///< of a collective, or a message
  Seconds member;      ///< more for each member of its group, in pipelines over several nodes
  Seconds step;        ///< of a step of the schedule: fetching data, handing tensors over
  Seconds weight;      ///< of a weight in the optimizer's step
  /// Each slice of a weight takes this in the optimizer's step; there is one for each copy among which its
  /// state is divided.
  Seconds slice;
  /// All times, multiplied.
  [[nodiscard]] HostTimes scaled(double factor) const;
  bool operator==(const HostTimes&) const = default;
};

/// The times of what is launched within a CUDA graph: 0.5 us a kernel, an estimate.
HostTimes times_in_graphs();

/// Whether a framework reduces gradients while backward still runs, where no pipeline orders its steps.
enum class ReductionOverlap : std::uint8_t {
  Always,
  UnlessSharded,  ///< not where copies divide what they keep (StateSharding)
  Never
};

/// Where devices compute while the stages of a pipeline send tensors to each other. Else sender and receiver
/// wait for the end of each message. Collectives run beside compute all the same.
enum class MessageOverlap : std::uint8_t {
  Always,
  UnlessPlain,  ///< not under 1F1B, whose steps wait for what they send and receive (Megatron-LM, PyTorch)
  Never
};

/// What a device copies of its gradients for the optimizer's step, all that it updates at once, where they
/// have 16 bits and it keeps main weights in float32. The copies are there during the step alone.
enum class StepGradients : std::uint8_t {
  Own,      ///< nothing
  Float32,  ///< to float32
  /// They are joined in one tensor, which is then copied to float32, where copies of the weights divide the
  /// state (DeepSpeed, runtime/zero/stage_1_and_2.py and stage3.py). Else each is copied to float32, and the
  /// copies are then joined (runtime/fp16/fused_optimizer.py).
  Flat
};

/// How the step of a PyTorch optimizer runs, which decides what it holds beside its state, see
/// optimizer_intermediates(). torch/optim/adam.py, adamw.py and _adafactor.py of PyTorch from 2.1 on; up
/// to 2.0 lists were as large twice.
enum class OptimizerKernel : std::uint8_t {
  Fused,    ///< one kernel updates all (fused=True, apex's, Transformer Engine's and DeepSpeed's FusedAdam)
  Foreach,  ///< kernel after kernel runs over lists of all tensors, PyTorch's default on GPUs
  Single    ///< tensor after tensor (foreach=False)
};

/// What brings tokens to their experts and results back.
enum class Dispatcher : std::uint8_t {
  /// Nothing named: tokens travel as the model says (TensorUse::route), beside whatever else can run.
  AsModel,
  AllToAll,  ///< NCCL's all-to-all, a copy of a token for each of its experts
  DeepEp,    ///< a token goes once to each node, and there once to each device (DeepEP, normal kernels)
  HybridEp   ///< the same, with fewer multiprocessors for as many bytes
};

/// What runs a plan: a framework, and how much of it is compiled.
struct Runtime {
  std::string name = "pipesim";  ///< reads back to an equal runtime by parse_runtime()
  HostTimes host;                ///< all 0: the host is not modelled
  /// Launches one kernel after the other where pipesim has one, see SeparateKernels.
  bool separate_kernels = false;
  /// Version of FlashAttention: 1 (as written in Triton), 2, or later ones, see DeviceKind.
  std::int32_t flash_attention = 4;
  /// The time of an update, divided by that of the bytes that it must move: gradients are clipped and copied,
  /// too.
  double update = 1;
  ReductionOverlap overlap = ReductionOverlap::Always;
  /// The share of their bandwidth that backward passes of norms reach: PyTorch's kernels read rows once for
  /// their own gradient and once, badly, for those of scale and shift.
  double norm_backward = 1;
  /// Products run beside the gathers of their inputs and the scattered sums of their results, part by part
  /// (taskgraph/binding/product_overlap.h).
  bool tensor_overlap = false;
  /// Weights are cast to float8 (Casts) once an iteration instead of in each microbatch; the time of that one
  /// cast is left out.
  bool casts_weights_once = false;
  /// Products add the gradients of weights to the sums in float32 themselves (Megatron-LM's
  /// gradient_accumulation_fusion), instead of writing them for a kernel that adds.
  bool products_sum_gradients = false;
  /// Applies to pipelines that do not choose it themselves.
  MessageOverlap messages = MessageOverlap::Always;
  /// The share of the time in which a collective's bytes move that compute on its devices loses while the two
  /// run beside each other: both want multiprocessors and memory. It holds for gathers of weights and
  /// reductions of their gradients.
  double interference = 0;
  /// All gradients are reduced, then all weights updated, then all gathered, as where gradients are clipped
  /// by the norm of all. Else each weight is updated once its gradient is reduced.
  bool updates_together = false;
  /// Where copies divide the optimizer's state alone (zero1), each gets the whole sum of gradients. Else each
  /// gets the sum of its part.
  bool sums_whole = false;
  /// After an update, weights whose state is divided come from their copies by one broadcast after the other
  /// (CostModel::plan_broadcast_gather), as where each copy updates whole weights; else they are gathered.
  bool broadcasts_weights = false;
  StepGradients step_gradients = StepGradients::Own;
  /// Where copies divide weights, too (zero3), the step goes through parts of this many elements, so the
  /// copies are of one part at a time; 0: all at once.
  std::int64_t step_part = 0;
  OptimizerKernel optimizer_kernel = OptimizerKernel::Fused;
  /// Elements of a buffer (a "bucket") that gradients stand in, in the type of their weights, to be reduced
  /// where copies divide state (StateSharding); 0: there are none. See PlanContents::gradient_buckets().
  std::int64_t bucket = 0;
  /// A bucket is copied to be reduced, where it holds parts of several copies' state, see runtime_buffers().
  bool copies_buckets = false;
  /// Under zero1 with float32 gradients, those of a microbatch stay beside their sums in the type of the
  /// weights, where that is bfloat16, see PlanContents::keeps_own_gradients().
  bool keeps_own_gradients = false;
  /// Under zero3 a weight stays gathered from forward until backward where fewer elements of weights are used
  /// in between, see reused_weights(); 0: none stays.
  std::int64_t reuse_distance = 0;
  /// PyTorch's allocator has expandable segments, see CachingAllocator.
  bool expandable_segments = false;
  /// One that is named holds up compute as in frameworks: while tokens travel, their devices compute nothing
  /// unless forward runs beside backward (ScheduleKind::pairs); then compute goes on with the multiprocessors
  /// that are left (see costmodel/runtime/dispatcher.h).
  Dispatcher dispatcher = Dispatcher::AsModel;
  std::int32_t dispatcher_multiprocessors = 0;  ///< of each device; 0: as many as it takes unasked
  /// The host waits until the device knows how many tokens each expert gets, before it launches what sends
  /// them (Megatron-LM's cuda_sync_point, .tolist() in torchtitan). Buffers of a fixed size need no such
  /// wait.
  bool reads_token_counts = false;
  /// `host` holds for graphs of a whole iteration; parts of layers are launched in times_in_graphs(), behind
  /// one module for those of a layer together.
  CudaGraphs graphs = {};
  /// Whether received tokens are sorted by expert in kernels of their own, not in those that bring them.
  [[nodiscard]] bool sorts_tokens() const {
    return separate_kernels && dispatcher != Dispatcher::DeepEp && dispatcher != Dispatcher::HybridEp;
  }
  [[nodiscard]] bool has_host() const { return host != HostTimes{}; }
  bool operator==(const Runtime&) const = default;
};

/// A runtime with a name of its own.
struct RuntimePreset {
  Runtime runtime;
  std::string description, source;  ///< where the figures come from
};

/// "pipesim" (its own executor, without a host) first.
const std::vector<RuntimePreset>& runtime_presets();
/// NAME, or NAME:KEY=VALUE,… with other figures. InputError with what is allowed.
Runtime parse_runtime(std::string_view text);
std::string_view name_of(OptimizerKernel kernel);
/// The runtime with an optimizer that runs so.
Runtime with_optimizer_kernel(const Runtime& runtime, OptimizerKernel kernel);
Runtime with_expandable_segments(const Runtime& runtime);
/// The runtime with a dispatcher and the multiprocessors that it is given; 0: as many as it takes unasked.
Runtime with_dispatcher(const Runtime& runtime, Dispatcher dispatcher, std::int32_t multiprocessors);
std::string_view name_of(Dispatcher dispatcher);
Runtime with_graphs(const Runtime& runtime, CudaGraphs graphs);
/// The second runtime, with what the first one holds for gradients and steps, and with its allocator.
Runtime with_step_memory_of(const Runtime& runtime, const Runtime& changed);
/// The keys, with what they may be, for help.
std::string runtime_keys_text();

/// The time that the host spends on a pass that runs (Pass::BackwardWeight: beside that of
/// Pass::BackwardInput) of a shard of an operator that is split by `degrees`, one for each factor.
Seconds host_time(const Operator& op, Pass pass, const HostTimes& times,
                  std::span<const std::int32_t> degrees);

}  // namespace pipesim
