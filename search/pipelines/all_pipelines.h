#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/evaluator.h"
#include "search/pipelines/pipelined_strategy.h"
#include "search/pipelines/placements.h"

namespace pipesim {

/// Pipelines of layers in order: cut anywhere, on groups of any devices (see Placements), which may stay
/// idle, in rows of any number of tensor-parallel devices that divides a group's (see staged_strategy());
/// under each of the schedules that suits, those that take chunks with every number of stages a group.
struct PipelineSpace {
  std::vector<std::int32_t> layer_of;  ///< by operator, from 0; no layer reads from a later one
  std::vector<std::string> schedules;  ///< as they are written, at least one
  std::int32_t stages = 0;             ///< only pipelines of so many; 0: of any number
};

/// How many there are, legal or not. Where they are more than `most`, it may be that only some of them are
/// counted, but more than `most`: those without tensor parallelism, for which no placement is listed.
double number_of_pipelines(const PipelineSpace& space, const Placements& placements,
                           std::int32_t microbatches, double most);

/// The best of a space, and how it was found.
struct PipelineOptimum {
  std::optional<PipelinedStrategy> plan;  ///< nothing when none fits; of equally fast ones the first
  Evaluation evaluation;                  ///< of the plan
  std::int64_t pipelines = 0;             ///< of the space, legal or not
  std::int64_t simulated = 0;
  std::int64_t estimated = 0;  ///< of these: times that are not proven, see Evaluation
  Bytes least_overflow;        ///< of those that were simulated, where none fits
  std::string refusal;         ///< where none was simulated: why one is illegal
  bool ended = false;          ///< every pipeline was simulated or left out
  /// None is better.
  [[nodiscard]] bool proven() const { return ended && estimated == 0; }
};

/// What best_pipeline() leaves out. Bounds: pipelines whose busiest device alone computes for as long as the
/// best one found so far takes. They change nothing but how many are simulated.
enum class LeaveOut : std::uint8_t { Nothing, ByBounds };

/// The fastest pipeline of the space that fits into memory, as the simulator says, by trying all: those with
/// the least compute time of the busiest device first. `options`: their pipeline is not looked at. `go_on` is
/// called after each simulation, and now and then before the first; the search ends when it returns false.
PipelineOptimum best_pipeline(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                              const PipelineSpace& space, const Placements& placements, LeaveOut leave_out,
                              const std::function<bool(const PipelineOptimum&)>& go_on);

}  // namespace pipesim
