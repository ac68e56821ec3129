#pragma once

#include <memory>
#include <string>

#include "executor/backend/backend.h"
#include "executor/gpu/machine/stream.h"
#include "sim/base/data_type.h"
#include "sim/base/ids.h"
#include "sim/base/units.h"
#include "topologies/gpu_share.h"

namespace pipesim::gpu {

/// What the kernels of a stream do. Where both wait for multiprocessors, those of communication go first:
/// other devices wait for them, and they are small.
enum class StreamUse { Compute, Communication };

/// Devices that run behind the host. Their memory is not the host's. Their work is noted in streams and done
/// later: in order within a stream, in parallel across streams. Used by one thread at a time. DeviceError
/// when a device fails.
class Machine : public Allocator {
 public:
  /// "NVIDIA H200", "NVIDIA H200 as 8 devices of 16 multiprocessors".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Why its devices can't compute in elements of a type: "NVIDIA T4 has no bfloat16 (…)"; "" when they can.
  [[nodiscard]] virtual std::string why_not(DataType /*type*/) const { return {}; }
  // Memory is aligned to 256.
  /// Bytes that can still be allocated.
  [[nodiscard]] virtual Bytes free_memory(DeviceId device) const = 0;
  /// The part of its GPU that each device is; the same for all.
  [[nodiscard]] virtual GpuShare share() const { return {}; }
  /// Whether all devices allocate from the same memory.
  [[nodiscard]] virtual bool shares_memory() const = 0;

  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(DeviceId device, StreamUse use) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event(DeviceId device) = 0;
  /// Time from one event to another. Both were recorded on any device of the machine and are over.
  [[nodiscard]] virtual Nanoseconds time_between(const Event& from, const Event& to) = 0;

  /// Records the work put into streams from now on instead of doing it. `first` is one of the streams. Every
  /// other stream must wait for it, directly or through others, before it takes part, and `first` must wait
  /// for all of them at the end.
  virtual void begin_recording(Stream& first) = 0;
  [[nodiscard]] virtual std::unique_ptr<Recording> end_recording(Stream& first) = 0;
};

}  // namespace pipesim::gpu
