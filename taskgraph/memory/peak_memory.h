#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/expansion/folding.h"
#include "taskgraph/memory/memory_changes.h"
#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// What one device holds when it holds most.
struct DeviceMemory {
  Bytes peak;
  Nanoseconds when = 0;                            ///< the first moment of the peak
  std::array<Bytes, kMemoryCategories> at_peak{};  ///< by category; they add up to `peak`
  bool operator==(const DeviceMemory&) const = default;
};

/// An upper bound of every device's peak that needs no timeline: all that the strategy ever allocates there,
/// in all the plan's microbatches.
std::vector<Bytes> allocated_memory(const ExpandedStrategy& expanded);

/// Memory over time (engine rule 8): a buffer counts from the start of the task that writes it to the end of
/// its last reader; at equal times memory is freed before it is allocated; weights, their gradients and
/// optimizer state are permanent. What is run again is freed when forward has read it, and counts once more
/// from the start of the second run.
std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const Timeline& timeline);
/// The same of all the plan's microbatches, where the timeline is of few of them.
std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const TaskTimes& few,
                                      const SteadyState& steady);

/// Peaks of the devices that stand for others in `of_all`: with their own changes, and those of the devices
/// that stand for them in `of_steps`, both of which get sorted.
std::vector<DeviceMemory> peak_memory(const std::vector<WeightMemory>& permanent, const Folding& of_steps,
                                      MemoryChanges& in_steps, const Folding& of_all, MemoryChanges& own);

/// Why the peaks do not fit, of the device that lacks most: "gpu3 needs 91.2 GB, has 80 GB (and 2 more
/// devices)", or "gpu3 needs 75.1 GB, has 80 GB less a margin of 8 GB" where the topology has one. Nothing
/// when they do.
std::optional<std::string> memory_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology);

/// What the device that lacks most lacks; 0 where they fit.
Bytes largest_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology);
/// Bytes over what may be used of the devices' memories, summed over devices.
Bytes memory_overflow(const std::vector<DeviceMemory>& peaks, const Topology& topology);

}  // namespace pipesim
