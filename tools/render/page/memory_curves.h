#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "search/evaluator.h"

namespace pipesim {

/// What a device holds, step by step: bytes[c][i] of category c from time[i] until time[i + 1].
struct MemoryCurve {
  std::string device;
  std::int64_t alike = 1;  ///< devices that it stands for, itself included
  Bytes usable;            ///< what plans may use, see Topology::usable_memory
  Bytes memory;            ///< of the device
  Bytes peak;              ///< of the whole iteration, also where only a part of it is drawn
  std::vector<Nanoseconds> time;
  std::array<std::vector<Bytes>, kMemoryCategories> bytes;
  [[nodiscard]] Bytes total(std::size_t step) const;
};

/// Returns the curves of the devices that were simulated and hold anything, over the simulated part. `peaks`:
/// by device, as PlanReport::memory. Curves of more than `most_steps` steps are made of equal parts of the
/// time, each with what the device holds at its fullest moment.
std::vector<MemoryCurve> memory_curves(const SimulatedPart& part, const std::vector<DeviceMemory>& peaks,
                                       std::size_t most_steps);

/// The object "memory" of docs/reports.md: bytes; categories that never change are a single number.
nlohmann::ordered_json json_of(const std::vector<MemoryCurve>& curves);

}  // namespace pipesim
