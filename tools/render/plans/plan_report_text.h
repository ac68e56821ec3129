#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/analysis/plans/plan_report.h"

namespace pipesim {

/// "causal attention at half, as Megatron-LM does": how model FLOPs are counted.
std::string counting_text(const TrainingRates& rates);
/// "989 TFLOP/s, the rate of bfloat16": of a device, by which MFU divides.
std::string peak_text(const TrainingRates& rates, const Topology& topology);

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
