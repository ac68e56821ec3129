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

/// The most bytes that one device holds at once, and what it needs beside them.
struct DeviceMemory {
  Bytes peak;
  Nanoseconds when = 0;                            ///< the first moment of the peak
  std::array<Bytes, kMemoryCategories> at_peak{};  ///< by category; they add up to `peak`
  std::int32_t communicators = 0;                  ///< that it is in, see Communicators
  bool operator==(const DeviceMemory&) const = default;
};

/// The communicators that each device of the topology is in, also where the strategy is folded.
CommunicatorCount communicators(const ExpandedStrategy& expanded);

/// An upper bound of every device's peak that needs no timeline: the sum of all that the strategy ever
/// allocates there, in all microbatches of the plan.
std::vector<Bytes> allocated_memory(const ExpandedStrategy& expanded);

/// Memory over time (engine rule 8). A buffer counts from the start of the task that writes it to the end of
/// its last reader. At equal times memory is freed before it is allocated. Weights, their gradients and
/// optimizer state are permanent. Copies of gradients (Runtime::step_gradients), which a framework makes when
/// backward is through, are there while the last of a device's updates runs, and so are, in its second half,
/// the optimizer's intermediates (Runtime::optimizer_kernel); runtime_buffers() says what else runtimes hold.
/// An activation that is recomputed is freed when forward has read it, and counts again from the start of the
/// second run. In a folded strategy only the devices that stand for others have a peak, but all have their
/// communicators.
std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const Timeline& timeline);
/// The peaks with all the plan's microbatches, from a timeline with few of them.
std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const TaskTimes& few,
                                      const SteadyState& steady);

/// Why the peaks do not fit, for the device with the largest shortage: "gpu3 needs 91.2 GB, has 80 GB (and 2
/// more devices)". Where the topology has a margin: "gpu3 needs 75.1 GB, has 80 GB less a margin of 8 GB".
/// Where frameworks take a part: "gpu3 needs 79.5 GB, has 85.5 GB, of which frameworks and 4 communicators
/// leave 79.1 GB".
/// Nothing when all peaks fit.
std::optional<std::string> memory_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology);

/// The largest shortage of any device; 0 when all peaks fit.
Bytes largest_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology);
/// Bytes of the peaks beyond the usable memory of the devices, summed over devices.
Bytes memory_overflow(const std::vector<DeviceMemory>& peaks, const Topology& topology);

}  // namespace pipesim
