#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/timeline.h"
#include "taskgraph/steady_state.h"
#include "taskgraph/task_graph_builder.h"

namespace pipesim {

enum class MemoryCategory : std::uint8_t {
  Weights,
  Gradients,  ///< of weights, accumulated
  OptimizerState,
  Activations,  ///< outputs and what is saved for backward
  Transfers,    ///< receive buffers
  ActivationGradients,
  StashedWeights  ///< older versions, which microbatches under way still need
};
constexpr std::size_t kMemoryCategories = 7;
std::string_view name_of(MemoryCategory category);

/// What one device holds when it holds most.
struct DeviceMemory {
  Bytes peak;
  Nanoseconds when = 0;                            ///< the first moment of the peak
  std::array<Bytes, kMemoryCategories> at_peak{};  ///< by category; they add up to `peak`
  bool operator==(const DeviceMemory&) const = default;
};

/// An upper bound of every device's peak that needs no timeline: all that the strategy ever allocates there,
/// in all the plan's microbatches. Of the strategy that the builder built last.
std::vector<Bytes> allocated_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy);

/// Memory over time (engine rule 8): a buffer counts from the start of the task that writes it to the end of
/// its last reader; at equal times memory is freed before it is allocated; weights, their gradients and
/// optimizer state are permanent. What is run again is freed when forward has read it, and counts once more
/// from the start of the second run. Of the strategy that the builder built last, and its timeline.
std::vector<DeviceMemory> peak_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                      const Timeline& timeline);
/// Where the tasks of microbatches are in a timeline: number i of the first one's is, in microbatch m, at
/// m · of_one + i. Where changes of weights stand among microbatches, they come in blocks.
struct TaskTimes {
  const Timeline& timeline;
  std::int32_t microbatches = 1;
  std::size_t of_one = 0;
  TaskBlock block = {1, of_one};
};
/// The same of all the plan's microbatches, where the timeline is of few of them.
std::vector<DeviceMemory> peak_memory(TaskGraphBuilder& builder, const BoundStrategy& strategy,
                                      const TaskTimes& few, const SteadyState& steady);

/// Why the peaks do not fit: "gpu3 needs 91.2 GB, has 80 GB (and 2 more devices)", or "gpu3 needs 75.1 GB,
/// has 80 GB less a margin of 8 GB" where the topology has one. Nothing when they do.
std::optional<std::string> memory_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology);

/// Bytes over what may be used of the devices' memories, summed over devices.
Bytes memory_overflow(const std::vector<DeviceMemory>& peaks, const Topology& topology);

}  // namespace pipesim
