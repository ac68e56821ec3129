#pragma once

#include <span>
#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// Names operators of one kind in words: "embeddings" when these are all of the model's, else "2 of 3 linear
/// layers". Up to three words that all their names share follow: "40 of 41 linear layers (projection)".
std::string operators_in_words(const OperatorGraph& graph, std::span<const OperatorId> operators);

/// "split by samples and outputs", "copied on 4 devices" where every device computes all of it, "on one
/// device".
std::string split_in_words(const Operator& op, const ParallelConfig& config);

}  // namespace pipesim
