#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
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
  bool operator==(const StageMemory&) const = default;
};

/// The fullest device (largest peak, the first of several) of each stage, in the order of stages; stages with
/// the same device are reported together. Without a pipeline all operators are of stage 0. A device counts
/// with all that it holds, of its other stages too. `peaks`: by device.
std::vector<StageMemory> memory_by_stage(const BoundStrategy& strategy,
                                         const std::optional<Pipeline>& pipeline,
                                         const std::vector<DeviceMemory>& peaks);

/// A table with a row for each category that any of them holds, one for communicators and their number, one
/// for what else frameworks take (MemoryOverhead), and a column for each; of more than eight only the first,
/// the fullest and the last.
std::string memory_table(const std::vector<StageMemory>& stages, const Topology& topology);

/// An array of objects with stages, device, peak_bytes, communicators (their number), communicators_bytes,
/// frameworks_bytes (what else they take), and at_peak_bytes, which has a member for each category.
nlohmann::ordered_json json_of(const std::vector<StageMemory>& stages, const Topology& topology);

}  // namespace pipesim
