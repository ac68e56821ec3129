#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// An operator under a legal config as nested loops, and what it communicates, for people and as JSON.
std::string loops_text(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config);
nlohmann::ordered_json loops_json(const OperatorGraph& graph, const Operator& op,
                                  const ParallelConfig& config);

}  // namespace pipesim
