#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/operators/step_context.h"
#include "executor/program/device_kernels.h"
#include "executor/program/program.h"
#include "models/operator_graph.h"

namespace pipesim {

/// Addresses of the buffers of a running program.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual std::byte* address(BufferId buffer) const = 0;
  [[nodiscard]] virtual const Buffer& buffer(BufferId buffer) const = 0;
};

/// The source of devices' memory.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Null when there is no more memory.
  [[nodiscard]] virtual std::byte* allocate(DeviceId device, Bytes size) = 0;
  virtual void release(DeviceId device, std::byte* memory, Bytes size) = 0;
};

class Execution;
struct ExecutionParts;

/// A kind of devices: what they can compute, and how they run a program.
class Backend : public DeviceKernels {
 public:
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether buffers have content. If they have none, there is nothing to load or to inspect.
  [[nodiscard]] virtual bool computes() const { return true; }
  /// DeviceError when there is not enough memory for the buffers that stay.
  [[nodiscard]] virtual std::unique_ptr<Execution> make_execution(const ExecutionParts& parts) = 0;
};

/// Devices that are threads of this process and share its memory. Calls for one device come from that
/// device's own threads; calls for different devices run side by side. DeviceError when the device fails.
class ThreadBackend : public Backend, public Allocator {
 public:
  /// Called first on every thread that works for the device.
  virtual void enter(DeviceId device) = 0;

  virtual void move(DeviceId device, const MoveList& moves, const Memory& memory) = 0;
  virtual void compute(DeviceId device, const ComputeWork& work, const Memory& memory,
                       const StepContext& step) = 0;
  virtual void update(DeviceId device, const UpdateWork& work, const Memory& memory,
                      const StepContext& step) = 0;
  /// This device's part in a collective. `world`: all devices, ranked by id.
  virtual void communicate(DeviceId device, const CommunicationWork& work, const Memory& memory,
                           Communicator& world, std::int64_t tag) = 0;
};

}  // namespace pipesim
