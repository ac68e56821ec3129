#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/base/data_type.h"
#include "taskgraph/parallel_config.h"

namespace pipesim {

/// One config per operator of the graph, in its order.
using Strategy = std::vector<ParallelConfig>;

/// What a plan says beside its configs.
struct PlanOptions {
  Optimizer optimizer = Optimizer::Momentum;
  DataType gradient_type = DataType::Float32;  ///< weight gradients accumulate and travel in it
  Bytes gradient_piece{25'000'000};  ///< gradient synchronisation is cut into pieces of at most this, so that
                                     ///< one weight's transfer never blocks the links for long (the bucket
                                     ///< size of PyTorch's distributed data parallel)
  bool operator==(const PlanOptions&) const = default;
};

/// Why a strategy can't be used: the first illegal config, as `operator "fc1": …`. Nothing when it can.
std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const Topology& topology);

}  // namespace pipesim
