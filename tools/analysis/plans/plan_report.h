#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/training_work.h"
#include "search/evaluator.h"
#include "sim/explain.h"
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

/// "causal attention at half, as Megatron-LM does": how model FLOPs are counted.
std::string counting_text(const TrainingRates& rates);
/// "989 TFLOP/s, the rate of bfloat16": of a device, by which MFU divides.
std::string peak_text(const TrainingRates& rates, const Topology& topology);

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
  std::vector<Nanoseconds> compute;           ///< per device: its compute lane is busy
  std::vector<Nanoseconds> recompute;         ///< per device: part of this in which it runs forward once more
  std::vector<Nanoseconds> communication;     ///< per device: at least one of its own links is busy
                                              ///< (a bus counts for tasks in which the device takes part)
  std::vector<CommunicationTime> by_cause;    ///< per device: exposed and hidden communication
  std::int64_t critical_tasks = 0;            ///< on the critical path
  CriticalPath critical;          ///< its steps are those of the simulated part; its times of the iteration
  Nanoseconds critical_host = 0;  ///< in which hosts launch: part of critical.compute
  std::optional<std::string> infeasible;  ///< why the plan does not fit
  std::string recipe;                     ///< see RecognisedRecipe::str()
  std::string idle;                       ///< see idle_devices(); "" when all devices are used
  std::string borrowed_rates;             ///< see borrowed_rates()
  std::string opaque;                     ///< see opaque_operators()
  /// False where there was time for the iteration time alone, see report_in_time(). Then nothing else is
  /// known, and lists by device are empty.
  bool in_full = true;
};

/// "V100-SXM2-16GB has no bfloat16: taken at its float16 rate", for every kind of device that has no rate for
/// a 16-bit type of the model; else "".
std::string borrowed_rates(const OperatorGraph& graph, const Topology& topology);

/// "2 of 210 operators, 1.3 % of the compute: a (com.microsoft.X), b (Y)": operators of unknown kinds, the
/// first few by name, as their times are guesses; "" without.
std::string opaque_operators(Evaluator& evaluator, const Strategy& strategy);
std::string opaque_operators(const OperatorGraph& graph, const BoundStrategy& strategy,
                             const std::optional<Pipeline>& pipeline);

/// Simulates with labels, as much as proves the rest (Evaluator::score_labelled), or all. Afterwards the
/// evaluator's part() is of this plan. `counting`: of its rates.
PlanReport report_plan(Evaluator& evaluator, const BoundStrategy& strategy,
                       const FlopsCounting& counting = {});
PlanReport report_plan_in_full(Evaluator& evaluator, const BoundStrategy& strategy,
                               const FlopsCounting& counting = {});

/// Where the plan's time goes; the report must be in full. Two of them say why one plan is faster: because().
IterationParts iteration_parts(const PlanReport& report);

/// Returns a JSON object with the keys iteration_time_s, iteration_time_spread_s (where it is an estimate),
/// makespan_s (where it is another), throughput_samples_per_s, num_devices, num_tasks, peak_memory_bytes,
/// memory_by_stage, fits, compute_s, recompute_s (where anything is run again), communication_s,
/// communication_by_cause, critical_path, memory_margin_bytes (where there is one), memory_overhead (of kinds
/// of devices that have one), infeasible (why it does not fit), idle_devices, borrowed_rates and
/// opaque_operators (where there are any), recipe, and of language models tokens_per_s, model_flops_per_s,
/// hardware_flops_per_s, mfu, hfu, flops_counting (an object: causal_attention is "half" or "full",
/// documents_apart and routers as of FlopsCounting, framework where it is one's way), peak_flops_per_device
/// (FLOP/s, the mean of all devices) and peak_type (the type whose rate that is; several with commas). Where
/// the iteration time alone is known, simulated_in_full is false, and what is not known is null.
nlohmann::ordered_json json_of(const PlanReport& report, const Topology& topology);

/// A few lines for people.
std::string to_text(const PlanReport& report, const Topology& topology);

/// How long it takes to train with so many tokens: a line for people, and the members training_days and
/// device_hours of a JSON object. InputError where the model has no tokens.
std::string training_text(const PlanReport& report, const Topology& topology, double tokens);
nlohmann::ordered_json training_json(const PlanReport& report, const Topology& topology, double tokens);

/// One line per distinct config: how many operators have it, their share of the compute time, the first few
/// names. `pipeline`: the plan's.
std::string configs_text(const OperatorGraph& graph, const BoundStrategy& strategy, std::size_t most,
                         const std::optional<Pipeline>& pipeline);

/// "16 devices".
std::string devices_text(const Topology& topology);
/// "batch 64", or "batch 256 in 4 microbatches of 64, recompute full".
std::string batch_text(const OperatorGraph& graph, const PlanOptions& options);

}  // namespace pipesim
