#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/pipelines/pipelined_strategy.h"
#include "search/pipelines/placements.h"
#include "search/scored.h"

namespace pipesim {

/// All pipelines of layers in order. They may be cut anywhere and run on groups of any devices (see
/// Placements), some of which may stay idle. In a group, rows have any number of tensor-parallel devices that
/// divides the group's (see staged_strategy()). Every schedule that suits is tried; those that take chunks,
/// with every number of stages per group.
struct PipelineSpace {
  std::vector<std::int32_t> layer_of;  ///< by operator, from 0; no layer reads from a later one
  std::vector<std::string> schedules;  ///< as they are written, at least one
  std::int32_t stages = 0;             ///< only pipelines of so many; 0: of any number
};

/// The number of pipelines, legal or not. If it exceeds `most`, the result may count only those without
/// tensor parallelism, for which no placement has to be listed; it still exceeds `most`.
double number_of_pipelines(const PipelineSpace& space, const Placements& placements,
                           std::int32_t microbatches, double most);

/// The best of a space, and how it was found.
struct PipelineOptimum {
  std::optional<Scored<PipelinedStrategy>> best;  ///< nothing when none fits; of equally fast ones the first
  std::int64_t pipelines = 0;                     ///< of the space, legal or not
  std::int64_t simulated = 0;
  std::int64_t estimated = 0;  ///< of these: times that are not proven, see Evaluation
  Bytes least_overflow;        ///< of those that were simulated, where none fits
  std::string refusal;         ///< where none was simulated: why one is illegal
  bool ended = false;          ///< every pipeline was simulated or left out
  /// Whether no pipeline of the space is better.
  [[nodiscard]] bool proven() const { return ended && estimated == 0; }
};

/// Which pipelines best_pipeline() skips. ByBounds: those whose busiest device alone computes for as long as
/// the best one so far takes. This changes only the number of simulations.
enum class LeaveOut : std::uint8_t { Nothing, ByBounds };

/// The fastest pipeline of the space that fits into memory, judged by simulation. Tries all, beginning with
/// the least compute time of the busiest device. The pipeline in `options` is ignored. `go_on` is called
/// after each simulation, and now and then before the first; the search ends when it returns false.
PipelineOptimum best_pipeline(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                              const PipelineSpace& space, const Placements& placements, LeaveOut leave_out,
                              const std::function<bool(const PipelineOptimum&)>& go_on);

}  // namespace pipesim
