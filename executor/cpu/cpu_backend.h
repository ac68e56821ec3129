#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "executor/backend/backend.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/optimizer.h"
#include "models/operator_graph.h"

namespace pipesim {

/// Devices that are threads of this process: kernels from executor/cpu, buffers in host memory.
class CpuBackend : public ThreadBackend {
 public:
  struct Settings {
    OptimizerSettings optimizer;
    int threads_per_device = 1;  ///< of oneDNN
    bool pin = true;             ///< device d to core d, as far as there are so many
    bool real_time = false;      ///< SCHED_FIFO where it is permitted
    bool watch_for_nan = false;  ///< look at all results; a NaN is a DeviceError that names its tensor
  };
  /// The graph must outlive this.
  CpuBackend(const OperatorGraph& graph, std::size_t num_devices, const Optimizer& optimizer,
             const Settings& settings);
  ~CpuBackend() override;

  [[nodiscard]] std::string name() const override { return "cpu"; }
  void require_kernel(const Operator& op) const override;
  void require_ring(const Operator& op) const override;
  void require_optimizer(const Optimizer& optimizer) const override;
  [[nodiscard]] std::int64_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override;
  /// A ThreadExecution.
  [[nodiscard]] std::unique_ptr<Execution> make_execution(const ExecutionParts& parts) override;
  void enter(DeviceId device) override;
  [[nodiscard]] std::byte* allocate(DeviceId device, Bytes size) override;
  void release(DeviceId device, std::byte* memory, Bytes size) override;
  void move(DeviceId device, const MoveList& moves, const Memory& memory) override;
  void compute(DeviceId device, const ComputeWork& work, const Memory& memory,
               const StepContext& step) override;
  void update(DeviceId device, const UpdateWork& work, const Memory& memory,
              const StepContext& step) override;
  void communicate(DeviceId device, const CommunicationWork& work, const Memory& memory, Communicator& world,
                   std::int64_t tag) override;

  /// Whether some thread runs under SCHED_FIFO.
  [[nodiscard]] bool in_real_time() const { return real_time_; }

 private:
  const OperatorGraph& graph_;
  Optimizer optimizer_;
  Settings settings_;
  std::atomic<bool> real_time_ = false;
  std::vector<std::map<std::size_t, std::vector<std::byte*>>>
      idle_;  // by device and size: memory to use again
};

}  // namespace pipesim
