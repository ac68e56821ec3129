#pragma once

#include <memory>
#include <string>

#include "executor/backend/backend.h"
#include "executor/gpu/activity/activity_collector.h"
#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/optimizer.h"
#include "executor/run/execution.h"
#include "models/operator_graph.h"

namespace pipesim::gpu {

/// How long the devices of GpuBackend::Settings::hold wait for the host, in nanoseconds. Enqueuing a step
/// takes a few milliseconds. But a driver queues only about a thousand launches of a stream. In longer steps
/// the host waits for the devices, which wait for the host, so these steps take this much longer.
inline constexpr Nanoseconds kHoldForHost = 100'000'000;

/// Devices of a machine that runs behind the host. Programs need places in arenas (Program::arenas).
class GpuBackend : public Backend {
 public:
  struct Settings {
    OptimizerSettings optimizer;
    bool watch_for_nan = false;  ///< look at all results; a NaN is a DeviceError that names its tensor
    /// Takes the times of tasks. Events do so when this is null or refuses. Recorded steps have no such
    /// times.
    ActivityCollector* activity = nullptr;
    bool recorded = false;  ///< steps after the first repeat what it did: faster, and without times of tasks
    /// Devices begin a step when the host has enqueued all of it, or after so many nanoseconds
    /// (StepRecord::outran_host), so that times of tasks don't contain waiting for the host. With 0 they
    /// begin at once. Recorded steps are not held.
    Nanoseconds hold = 0;
  };
  /// All must outlive this.
  GpuBackend(const OperatorGraph& graph, Machine& machine, Collectives& collectives,
             const Optimizer& optimizer, const Settings& settings)
      : graph_(graph),
        machine_(machine),
        collectives_(collectives),
        optimizer_(optimizer),
        settings_(settings) {}

  [[nodiscard]] std::string name() const override { return machine_.name(); }
  void require_kernel(const Operator& op) const override;
  void require_ring(const Operator& op) const override;
  void require_optimizer(const Optimizer& optimizer) const override;
  /// Returns the stored type, except that integers of less than 64 bits become Int64.
  [[nodiscard]] DataType kernel_type(DataType stored) const override;
  [[nodiscard]] std::int64_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override;
  /// InputError when memory that is free is less than the arenas (require_memory).
  [[nodiscard]] std::unique_ptr<Execution> make_execution(const ExecutionParts& parts) override;

  // These functions put the work of instructions into a stream.

  void move(Stream& stream, const MoveList& moves, const Memory& memory) const;
  void compute(Stream& stream, const ComputeWork& work, const Memory& memory, const StepContext& context,
               const DeviceStep* device_step) const;
  void update(Stream& stream, const UpdateWork& work, const Memory& memory,
              const DeviceStep* device_step) const;

  [[nodiscard]] Machine& machine() const { return machine_; }
  [[nodiscard]] Collectives& collectives() const { return collectives_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  /// Sets Settings::activity from the next step on.
  void take_times_by(ActivityCollector* activity) { settings_.activity = activity; }

 private:
  const OperatorGraph& graph_;
  Machine& machine_;
  Collectives& collectives_;
  Optimizer optimizer_;
  Settings settings_;
};

}  // namespace pipesim::gpu
