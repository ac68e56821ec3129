#pragma once

#include <span>
#include <vector>

#include "search/simulated_part.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/memory/reserved_memory.h"

namespace pipesim {

/// What PyTorch's allocator reserves on some devices of a simulated plan (reserved_memory()), where there is
/// as much memory for it as contexts and communicators leave (MemoryOverhead). Where that is too little,
/// figures are those without a limit, and `fits` is false unless the peak alone is too much. `peaks`: by
/// device. Where few microbatches were simulated and peaks are higher with all of them, figures grow with the
/// peaks.
std::vector<ReservedMemory> allocator_memory(const SimulatedPart& part,
                                             const std::vector<DeviceMemory>& peaks,
                                             std::span<const DeviceId> devices);

}  // namespace pipesim
