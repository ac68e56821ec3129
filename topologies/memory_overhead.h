#pragma once

#include <cstdint>

#include "sim/base/units.h"

namespace pipesim {

/// What frameworks and drivers take of a device's memory beside the model, and how much memory there is for
/// it. All zero: nothing is known of it, and plans may use all of DeviceKind::memory.
struct MemoryOverhead {
  Bytes installed;           ///< that the driver reports; datasheets round it down
  Bytes context;             ///< what the driver keeps, and the CUDA context with its kernels
  Bytes communicator;        ///< NCCL's buffers for one group of devices
  double fragmentation = 0;  ///< the share of a peak that verdicts leave for gaps between tensors; in [0, 1]

  [[nodiscard]] bool is_none() const { return *this == MemoryOverhead(); }
  /// The largest peak that fits on a device that is in so many communicators: (installed − context −
  /// communicators · communicator) / (1 + fragmentation), rounded down; `memory`, the device's, where nothing
  /// is known. Negative where the overhead takes more than everything.
  [[nodiscard]] Bytes usable(Bytes memory, std::int32_t communicators) const;
  /// What nvidia-smi shows of a process whose allocator holds `reserved`.
  [[nodiscard]] Bytes of_process(Bytes reserved, std::int32_t communicators) const {
    return reserved + context + communicators * communicator;
  }
  bool operator==(const MemoryOverhead&) const = default;
};

}  // namespace pipesim
