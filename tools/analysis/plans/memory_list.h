#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "taskgraph/memory/memory_changes.h"

namespace pipesim {

/// What one device holds at its peak, and what would make the peak smaller.
struct MemoryList {
  DeviceId device;  ///< the one with the largest peak, the first of equal ones
  Bytes peak;
  /// What operators that differ in their layer alone hold in one category.
  struct Line {
    std::string operators;  ///< "gate", or "gate of 12 layers"
    MemoryCategory category = MemoryCategory::Activations;
    std::int64_t buffers = 0;  ///< one for each operator and microbatch, or more
    Bytes bytes;
  };
  std::vector<Line> lines;  ///< the largest first; their bytes add up to the peak
  /// The same plan with one other policy.
  struct Switch {
    std::string setting;  ///< "recompute=mlp", "zero1"
    Bytes peak;           ///< of the device with the largest one
    Nanoseconds time = 0;
  };
  std::vector<Switch> switches;  ///< those that make the peak smaller, the fastest first
};

/// Lists the peak of a plan that was simulated in full, whose devices' peaks these are. Nothing where the
/// peak is in iterations that follow on each other, as schedules have them that change weights between
/// microbatches. InternalError where devices or microbatches stand for others.
std::optional<MemoryList> memory_list(const SimulatedPart& part, const std::vector<DeviceMemory>& peaks);

/// What else a plan may compute again or divide.
struct MemoryChoices {
  std::vector<Recompute> recomputes;
  std::vector<StateSharding> shardings;
  /// Each module of layers, op and full, and each kind of state sharding, of a plan with a pipeline or
  /// without.
  static MemoryChoices all(bool pipeline);
};
/// Simulates the plan with each of these that its model and its pipeline allow, and returns those with a
/// smaller peak.
std::vector<MemoryList::Switch> memory_switches(const Strategy& strategy, const PlanContents& contents,
                                                Bytes peak, const MemoryChoices& choices);

}  // namespace pipesim
