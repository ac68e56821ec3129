#pragma once

#include <dlfcn.h>

#include <map>
#include <memory>

#include "models/box.h"
#include "taskgraph/binding/bound_operator.h"
#include "tests/executor/cpu/whole_tensor.h"

namespace pipesim::cpu {

/// Many tiny products are fastest on one thread: idle ones spin. OpenMP comes with oneDNN only.
inline void use_one_thread() {
  using Set = void (*)(int);
  if (const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

/// Bytes aligned as kernels are promised, with a mark behind them that must survive.
class SavedBytes {
 public:
  explicit SavedBytes(std::size_t size) : size_(size), memory_(size + 128, std::byte{0xAB}) {}
  std::span<std::byte> span() {
    void* start = memory_.data();
    std::size_t room = memory_.size();
    return {static_cast<std::byte*>(std::align(64, size_, start, room)), size_};
  }
  bool intact() {
    const std::byte* end = span().data() + size_;
    return std::all_of(end, end + 64, [](std::byte b) { return b == std::byte{0xAB}; });
  }

 private:
  std::size_t size_;
  std::vector<std::byte> memory_;
};

/// All shards of one operator in lockstep, each seeing its own boxes only. Inner statistics are combined over
/// their groups here; values and gradients are put together by the rule of layouts: an element is the sum of
/// its distinct addends, and copies of one addend agree. Include shard_run_passes.h, which has the rest.
class ShardRun {
 public:
  /// `wanted`: per use, whether its gradient is computed.
  ShardRun(const Kernel& kernel, const Operator& op, const ParallelConfig& config, StepContext step,
           std::vector<bool> wanted)
      : op_(op),
        config_(config),
        grid_(op, config),
        step_(step),
        wanted_(std::move(wanted)),
        kernel_(&kernel) {
    use_one_thread();
  }

  /// Computes outputs and states from the other uses.
  WholeTensors forward(const WholeTensors& whole) {
    for (std::int64_t k = 0; k < grid_.num_shards(); ++k) shards_.push_back(make_shard(k, whole));
    run_pass(Pass::Forward, [&](const ShardCall& call, std::size_t s) { kernel_->forward(call, s); });
    WholeTensors results(op_.uses.size());
    for (std::size_t u = 0; u < op_.uses.size(); ++u) {
      const TensorUse& use = op_.uses[u];
      if (use.role == Role::State) results[u] = assemble_state(u);
      if (use.role != Role::Output) continue;
      results[u] = assemble(u, produced_layout(op_, use, config_), &Shard::values, true);
    }
    return results;
  }

  /// Computes gradients of inputs and weights; kernels see only what a pass is promised.
  WholeTensors backward(const WholeTensors& output_gradients, bool weights_first) {
    for (Shard& shard : shards_) prepare_backward(shard, output_gradients);
    const bool separate = !op_.flops_backward_weight.empty();
    const auto weights = [&] {
      if (!separate) return;
      run_pass(Pass::BackwardWeight, [&](const ShardCall& c, std::size_t) { kernel_->backward_weight(c); });
    };
    if (weights_first) weights();
    if (any_wanted(Role::Input) || (!separate && any_wanted(Role::Weight))) {
      run_pass(Pass::BackwardInput,
               [&](const ShardCall& c, std::size_t s) { kernel_->backward_input(c, s); });
    }
    if (!weights_first) weights();
    WholeTensors results(op_.uses.size());
    for (std::size_t u = 0; u < op_.uses.size(); ++u) {
      if (!wanted_[u]) continue;
      results[u] = assemble(u, gradient_layout(op_, op_.uses[u], config_), &Shard::gradients, false);
    }
    return results;
  }

 private:
  struct Shard {
    std::vector<Range> ranges;
    std::vector<LocalTensor> values, gradients;
    std::vector<std::vector<double>> statistics;
    std::unique_ptr<SavedBytes> saved;
  };

  [[nodiscard]] bool any_wanted(Role role) const {
    for (std::size_t u = 0; u < op_.uses.size(); ++u) {
      if (op_.uses[u].role == role && wanted_[u]) return true;
    }
    return false;
  }

  /// False where a `Once` tensor lives on another shard.
  [[nodiscard]] bool has_box(const TensorUse& use, std::int64_t k) const {
    for (std::size_t f = 0; f < op_.factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      if (!use.follows(factor) && use.lack(factor) == Lack::Once && grid_.coordinate(k, factor) != 0)
        return false;
    }
    return true;
  }

  Shard make_shard(std::int64_t k, const WholeTensors& whole);
  void prepare_backward(Shard& shard, const WholeTensors& output_gradients);
  void reduce(const InnerStep& step, std::size_t index);
  WholeTensor assemble(std::size_t use, const Layout& layout, std::vector<LocalTensor> Shard::*held,
                       bool complete);
  WholeTensor assemble_state(std::size_t use);
  template <class Segment>
  void run_pass(Pass pass, Segment segment);
  template <class Segment>
  void call_shard(Shard& shard, Pass pass, std::size_t index, Segment segment);

  const Operator& op_;
  ParallelConfig config_;
  ShardGrid grid_;
  StepContext step_;
  std::vector<bool> wanted_;
  const Kernel* kernel_;
  std::vector<Shard> shards_;
};

}  // namespace pipesim::cpu
