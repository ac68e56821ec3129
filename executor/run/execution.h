#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "executor/backend/buffer_table.h"
#include "executor/run/pace.h"
#include "executor/tensors/host_moves.h"
#include "sim/timeline.h"
#include "taskgraph/memory/peak_memory.h"

namespace pipesim {

/// When an instruction ran on its device; of a collective, `start` is when this member came to it.
struct InstructionTime {
  TaskId task;
  DeviceId device;
  Nanoseconds start = 0, end = 0;
  Nanoseconds ready = 0;     ///< when all that it waits for was done
  std::int32_t list = 0;     ///< its list's number; instructions of one list follow each other
  bool interrupted = false;  ///< the system took the processor away meanwhile, from this member
};

/// The times and memory of one step.
struct StepRecord {
  std::vector<InstructionTime> times;
  Nanoseconds makespan = 0;  ///< until the last instruction ended
  std::int64_t involuntary_switches =
      0;  ///< times that the system took the processor from one of our threads
  /// Devices that were to wait until the host has enqueued the step began before
  /// (GpuBackend::Settings::hold).
  bool outran_host = false;
  /// By task id: when the last member arrived, and when the task ended. Tasks of other processes: 0.
  [[nodiscard]] Timeline timeline(std::size_t num_tasks) const;
};

/// A program on its devices, step after step.
class Execution {
 public:
  virtual ~Execution() = default;
  /// Runs one step. After a failure everything stops, then the first error is thrown; no further step is
  /// possible. `inspect`, if given, may read() results before their buffers are freed.
  virtual StepRecord run(const StepContext& context, const std::function<void()>& inspect) = 0;

  /// Between steps: lets `fill` write a buffer that stays, in the host's memory or a copy in it, at once or
  /// part after part.
  virtual void fill(const View& view, const std::function<void(const HostPiece&)>& fill) = 0;
  /// Lets `look` read the data of a view.
  virtual void read(const View& view, const std::function<void(const HostPiece&)>& look) const = 0;

  [[nodiscard]] virtual MeasuredMemory measured_memory(DeviceId device) const = 0;
  /// Called before every instruction with a device and its task: for messages about what was running.
  virtual void on_task(std::function<void(DeviceId, TaskId)> callback) = 0;
};

/// The parts of an execution. All must outlive it.
struct ExecutionParts {
  const Program& program;
  std::size_t num_tasks = 0;
  std::size_t num_devices = 0;  ///< of the topology
  Pace& pace;                   ///< of devices that have no clock of their own
  /// By device id, a communicator of all devices for each device of the program, which may be shared by the
  /// device's threads. Devices that have their own way to communicate do not use it.
  std::span<Communicator* const> worlds;
  BufferTable::Describe describe;
  std::span<const DeviceMemory> predicted;  ///< peaks, by device id
};

}  // namespace pipesim
