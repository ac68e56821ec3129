#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/base/data_type.h"
#include "taskgraph/plan/imbalance.h"
#include "taskgraph/plan/parallel_config.h"
#include "taskgraph/plan/pipeline.h"
#include "taskgraph/plan/policies.h"

namespace pipesim {

/// One config per operator of the graph, in its order.
using Strategy = std::vector<ParallelConfig>;

/// Most microbatches of an iteration.
inline constexpr std::int32_t kMostMicrobatches = 1 << 20;

/// The part of a plan besides its configs.
struct PlanOptions : PlanPolicies {
  Optimizer optimizer = Optimizer::Momentum;
  DataType gradient_type = DataType::Float32;  ///< weight gradients accumulate and travel in it
  /// Gradient synchronisation is cut into pieces of at most this, so that one weight's transfer never blocks
  /// the links for long (the bucket size of PyTorch's distributed data parallel).
  Bytes gradient_piece{25'000'000};
  /// The number of times that an iteration runs the model's batch, forward and backward, each time with other
  /// samples. Weight gradients accumulate, are synchronised once, and update the weights once. From 1 to
  /// kMostMicrobatches.
  std::int32_t microbatches = 1;
  /// Without one, every device runs one microbatch after the other, each forward and backward.
  std::optional<Pipeline> pipeline;
  Imbalance imbalance;  ///< of the tokens that experts get; it changes times and memory, no result
  bool operator==(const PlanOptions&) const = default;
};

/// Samples of all microbatches together.
std::int64_t samples_per_iteration(const OperatorGraph& graph, const PlanOptions& options);

/// Why a strategy can't be used: the first illegal config, as `operator "fc1": …`. Nothing when it can.
std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const Topology& topology);
/// The same, or why the plan's pipeline, recomputation or state sharding can't run, as `pipeline: …`,
/// `recompute: …`, `state sharding: …`.
std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const PlanOptions& options, const Topology& topology);

}  // namespace pipesim
