#pragma once

#include <span>
#include <vector>

#include "taskgraph/memory/caching_allocator.h"
#include "taskgraph/memory/memory_changes.h"

namespace pipesim {

/// A device whose allocator is replayed, and what there is for it.
struct AllocatorDevice {
  DeviceId device;
  Bytes capacity = CachingAllocator::kUnlimited;
  bool operator==(const AllocatorDevice&) const = default;
};

/// What PyTorch's allocator makes of the buffers of one device.
struct ReservedMemory {
  Bytes allocated;   ///< the most that tensors take at once
  Bytes reserved;    ///< the most that the allocator holds
  bool fits = true;  ///< false: an allocation failed, and the figures are those until then
  bool operator==(const ReservedMemory&) const = default;
};

/// Replays three iterations of these microbatches through a CachingAllocator for each device, with the kind
/// of segments that the runtime has (Runtime::expandable_segments).
///
/// Weights and what gradients are added up in are there from the start, optimizer state from the end of the
/// first iteration, as PyTorch's optimizers make it in their first step. Weights that are gathered to be used
/// have a stream of their own (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
/// all_gather_copy_in_stream). At equal times buffers are freed before others are made.
std::vector<ReservedMemory> reserved_memory(const ExpandedStrategy& expanded, const TaskTimes& times,
                                            std::span<const AllocatorDevice> devices);

}  // namespace pipesim
