#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/training_work.h"
#include "search/evaluator.h"
#include "sim/explain.h"
#include "tools/analysis/plans/breakdown/allocator_memory.h"
#include "tools/analysis/plans/breakdown/exposed_communication.h"
#include "tools/analysis/plans/breakdown/iteration_parts.h"
#include "tools/analysis/plans/breakdown/memory_by_stage.h"

namespace pipesim {

/// How fast a plan trains, in the terms of language models.
struct TrainingRates {
  double tokens_per_second = 0;  ///< 0: the model has no tokens; then there is nothing to tell
  double model_flops_per_second = 0, hardware_flops_per_second = 0;  ///< see TrainingWork
  double peak_flops_per_second = 0;                                  ///< of all devices
  std::vector<DataType> peak_types;                                  ///< see PeakRate
  FlopsCounting counting;                                            ///< how model FLOPs are counted
  bool causal = false;  ///< some attention is causal, see TrainingWork

  [[nodiscard]] double mfu() const { return model_flops_per_second / peak_flops_per_second; }
  [[nodiscard]] double hfu() const { return hardware_flops_per_second / peak_flops_per_second; }
};

/// Those of an iteration of the plan; none of a plan that does not train.
TrainingRates training_rates(const PlanContents& contents, Nanoseconds iteration,
                             const FlopsCounting& counting = {});

/// The figures of one simulated plan, for people and scripts.
struct PlanReport {
  Nanoseconds iteration_time = 0;  ///< as Evaluation::time
  /// Where the iteration time is an estimate: how far the estimates from two parts of the stream are apart.
  std::optional<Nanoseconds> spread;
  Nanoseconds makespan = 0;  ///< of the timeline; longer where that has no end, see Evaluator
  double samples_per_second = 0;
  TrainingRates rates;
  std::size_t num_tasks = 0;                  ///< that were simulated
  std::int64_t simulated_devices = 0;         ///< which stand for all others
  std::int32_t simulated_microbatches = 0;    ///< which prove the others; 0: all were simulated
  std::vector<DeviceMemory> memory;           ///< per device
  std::vector<StageMemory> memory_of_stages;  ///< of each stage's fullest device
  /// What an allocator makes of the fullest devices of each stage and each kind.
  std::map<DeviceId, ReservedMemory> reserved;
  bool expandable_segments = false;         ///< of that allocator
  std::vector<Nanoseconds> compute;         ///< per device: its compute lane is busy
  std::vector<Nanoseconds> recompute;       ///< per device: part of this in which it runs forward once more
  std::vector<Nanoseconds> communication;   ///< per device: at least one of its own links is busy
                                            ///< (a bus counts for tasks in which the device takes part)
  std::vector<CommunicationTime> by_cause;  ///< per device: exposed and hidden communication
  std::int64_t critical_tasks = 0;          ///< on the critical path
  CriticalPath critical;          ///< its steps are those of the simulated part; its times of the iteration
  Nanoseconds critical_host = 0;  ///< in which hosts launch: part of critical.compute
  std::optional<std::string> infeasible;  ///< why the plan does not fit
  std::string recipe;                     ///< see RecognisedRecipe::str()
  std::string idle;                       ///< see idle_devices(); "" when all devices are used
  std::string borrowed_rates;             ///< see borrowed_rates()
  std::string opaque;                     ///< see opaque_operators()
  /// What the report is of, with labels. It takes as much memory as the tasks do, until it is reset.
  std::optional<SimulatedPart> part;
  /// False where there was time for the iteration time alone, see report_in_time(). Then nothing else is
  /// known, and lists by device are empty.
  bool in_full = true;
};

/// The device of this kind, or (null) of all kinds, whose memory is used to the largest share of what plans
/// may use. Nothing where there is none, or no memory is known.
std::optional<std::size_t> fullest_of_kind(const PlanReport& report, const Topology& topology,
                                           const DeviceKind* kind);

/// "V100-SXM2-16GB has no bfloat16: taken at its float16 rate", for every kind of device that has no rate for
/// a 16-bit type of the model; else "".
std::string borrowed_rates(const OperatorGraph& graph, const Topology& topology);

/// Durations of each operator's passes in one microbatch, summed over its shards; of replicas that take turns
/// those of one. `pipeline`: the plan's.
std::vector<Nanoseconds> compute_times(const BoundStrategy& strategy,
                                       const std::optional<Pipeline>& pipeline);

/// "2 of 210 operators, 1.3 % of the compute: a (com.microsoft.X), b (Y)": operators of unknown kinds, the
/// first few by name, as their times are guesses; "" without.
std::string opaque_operators(Evaluator& evaluator, const Strategy& strategy);
std::string opaque_operators(const OperatorGraph& graph, const BoundStrategy& strategy,
                             const std::optional<Pipeline>& pipeline);

/// Simulates as much as proves the rest (Extent::Proving), or all. `counting`: of its rates.
PlanReport report_plan(Evaluator& evaluator, const BoundStrategy& strategy,
                       const FlopsCounting& counting = {});
PlanReport report_plan_in_full(Evaluator& evaluator, const BoundStrategy& strategy,
                               const FlopsCounting& counting = {});

/// Where the plan's time goes; the report must be in full. Two of them say why one plan is faster: because().
IterationParts iteration_parts(const PlanReport& report);

}  // namespace pipesim
