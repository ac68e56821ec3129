#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "tools/analysis/plans/pipeline_strip.h"

namespace pipesim {

/// Figures of one stage of a simulated pipeline.
struct StageReport {
  std::int64_t operators = 0;
  std::vector<DeviceId> devices;  ///< ascending
  std::int32_t replicas = 1;      ///< that take microbatches in turn, on equal parts of the devices
  Nanoseconds compute = 0;        ///< mean of its devices: time that they compute for this stage
                                  ///< (where microbatches go both ways, with what others compute for it)
  std::int64_t in_flight = 0;     ///< most microbatches that have begun forward and not ended backward
                                  ///< (where they go both ways, in one direction)
  Bytes peak_memory;              ///< of its fullest device, with all stages that it has
  bool operator==(const StageReport&) const = default;
};

struct PipelineReport {
  std::string schedule;
  bool messages_block = false;  ///< devices compute nothing while stages send each other tensors
  std::int32_t microbatches = 1;
  bool weights_apart = false;    ///< the schedule has steps for the gradients of weights
  bool updates_between = false;  ///< weights change while microbatches are under way
  bool both_ways = false;        ///< odd microbatches go the opposite way through the devices
  std::vector<StageReport> stages;
  /// Share of the iteration in which the stages' devices compute nothing, mean over the devices: bubbles,
  /// waiting for data, synchronising weights, and updating them at the end.
  double idle = 0;
  PipelineStrip strip;  ///< a row for each group of devices; replicas are groups of their own
  /// The stages of a row: "0"; "0,4", or in a V "0,7", when they share devices; "0/3" for even and for odd
  /// microbatches; "0.1" for a stage's second replica.
  [[nodiscard]] std::string stages_of_row(std::size_t row) const;
};

/// Reports the pipeline of a strategy from what was simulated of it, with labels. The strip has `columns`
/// columns, at least 16. Nothing where the plan is no pipeline.
std::optional<PipelineReport> report_pipeline(const SimulatedPart& part, const BoundStrategy& strategy,
                                              const std::vector<DeviceMemory>& memory, std::size_t columns);

}  // namespace pipesim
