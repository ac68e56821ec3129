#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

/// What the fullest device of some stages holds at its peak.
struct StageMemory {
  std::vector<std::int32_t> stages;  ///< ascending; several where they share this device
  DeviceId device;
  DeviceMemory memory;
  Bytes reserved;  ///< that an allocator holds for it, see allocator_memory(); at first the peak
  bool operator==(const StageMemory&) const = default;
};

/// The fullest device (largest peak, the first of several) of each stage, in the order of stages; stages with
/// the same device are reported together. Without a pipeline all operators are of stage 0. A device counts
/// with all that it holds, of its other stages too. `peaks`: by device.
std::vector<StageMemory> memory_by_stage(const BoundStrategy& strategy,
                                         const std::optional<Pipeline>& pipeline,
                                         const std::vector<DeviceMemory>& peaks);

}  // namespace pipesim
