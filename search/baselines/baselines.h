#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/search.h"

namespace pipesim {

/// Strategies that people write down without a search, to measure searches against:
///
/// - `single-device`: everything on the device that needs the least time for the whole model; of equal ones
///   the one with the most memory, then the first.
/// - `data-parallel`: every operator's samples over all devices, aligned, so that only gradients of weights
///   travel.
/// - `model-parallel`: whole operators on single devices, in topological order, so that the busiest device
///   has as little to compute as possible; operators that share a weight stay together.
/// - `expert`: what a person who knows the family would do. Recognised by its operators:
///     attention: tensor-parallel inside a node and data-parallel across (Megatron-LM, arXiv:1909.08053),
///     experts over a node's devices; convolutions: data-parallel, and where linear layers hold most of the
///     weights they are split by output (Krizhevsky, arXiv:1404.5997); LSTM: layers on a node's devices, the
///     batch over the nodes (Wu et al., arXiv:1609.08144; the expert of Jia et al., arXiv:1807.05358);
///     anything else: data-parallel.
///
/// Where the number of devices does not divide the size that must be split, the largest number that does is
/// used and the other devices stay idle.
std::span<const std::string_view> baseline_names();

/// InputError on an unknown name. The strategy is legal; whether it fits into memory is not looked at.
Strategy baseline_strategy(std::string_view name, const OperatorGraph& graph, const CostModel& costs);

/// Returns how many devices have something to do.
std::size_t devices_used(const Strategy& strategy, const Topology& topology);
/// "4 of 6 devices used" when the strategy leaves devices idle; else "". "3 of 4 devices used: batch 3 can't
/// be split in 4" when they are as many as samples can be split over.
std::string idle_devices(const Strategy& strategy, const OperatorGraph& graph, const Topology& topology);

/// Scores all baselines in the order of their names; those that do not fit say why. Each may take an equal
/// share of the time that the thread's deadline (sim/base/deadline.h) leaves. One that takes longer is not
/// scored and says kNotScored.
std::vector<Baseline> score_baselines(Evaluator& evaluator);
inline constexpr std::string_view kNotScored = "not scored: out of time";

/// The fastest that fits; null when none does.
const Baseline* fastest_baseline(const std::vector<Baseline>& baselines);
/// The baseline that is nearest to fitting: its fullest device lacks least memory; among equals, the one that
/// lacks least on all devices together. Null when there is no baseline.
const Baseline* nearest_baseline(const std::vector<Baseline>& baselines);

}  // namespace pipesim
