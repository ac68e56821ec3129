#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/pipelines/cuts.h"

namespace pipesim {

/// One level of a hierarchy of machines, innermost first: a number of devices, or of groups of the level
/// below, and the bandwidth between two of them.
struct MachineLevel {
  std::int64_t machines = 1;
  BytesPerSecond bandwidth;
};

struct PipeDreamOptions {
  /// Without the faults of the published objective, which pipedream() lists.
  bool repaired = false;
  /// Activations that cross a cut take time too, divided by this; nothing: they are free.
  std::optional<double> activation_compression;
  bool straight = false;              ///< no stage on more than one machine, except a whole level's only one
  bool fewer_machines = false;        ///< machines may stay idle
  std::optional<Bytes> memory_limit;  ///< of what a machine keeps for all batches in flight
  double synchronised = 1;            ///< of each batch, in all-reduces of the stage's weights
  bool divides_weights = false;       ///< machines of a stage divide its weights
};

/// Layers that run on the same devices, which take batches in turn.
struct PipelineStage {
  std::vector<std::int32_t> layers;  ///< ascending
  /// They are counted through the hierarchy, from 0, ascending. Where a group of several members has copies,
  /// all copies have the same stages.
  std::vector<std::int64_t> devices;
  bool operator==(const PipelineStage&) const = default;
  [[nodiscard]] std::int64_t replicas() const { return static_cast<std::int64_t>(devices.size()); }
};

struct PipeDreamPlan {
  Seconds period;  ///< of its slowest stage for each batch, by the planner's own model
  std::vector<PipelineStage> stages;
};

/// PipeDream's partitioner (Narayanan et al., SOSP 2019, section 3.1): level by level from the inside, a
/// dynamic program over cuts. A stage of compute time T and parameters P on m machines takes (T + 4(m − 1)P /
/// (m·bandwidth)) / m, and the slowest stage decides; PipeDreamOptions::synchronised multiplies the second
/// term. The objective is that of the published optimizer, with its faults: the gradients of a level that is
/// not cut count once per machine of the level below; a last stage keeps no batch in flight, so the memory
/// limit never binds it; the output of the first stage never counts as a transfer by itself; Cut::augmented
/// is more than crosses. The repaired objective counts gradients in full, a stage keeps one batch more
/// (⌈machines from it on / its machines⌉), and both ends of every stage transfer Cut::crossing.
///
/// Nothing when no pipeline keeps to the memory limit, or when a straight one would need more cuts to use all
/// machines. `cuts` are those of cuts_of(), at least one; there is at least one level; machines, bandwidths
/// and the compression are above 0, else InternalError. Takes pipedream_steps() steps, about a nanosecond
/// each, and checks the deadline (sim/base/deadline.h) every few thousand to a million steps.
std::optional<PipeDreamPlan> pipedream(std::span<const Cut> cuts, std::span<const MachineLevel> levels,
                                       const PipeDreamOptions& options);

/// The number of steps of pipedream(): ways to end a pipeline with a stage, by cuts and machines. For levels
/// other than the outermost, they count for every cut behind which the pipeline may begin.
double pipedream_steps(std::span<const Cut> cuts, std::span<const MachineLevel> levels);

}  // namespace pipesim
