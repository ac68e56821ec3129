#pragma once

#include <string>

#include "models/operator_graph.h"
#include "sim/base/json_reader.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// The configs of a plan file, see to_json() in plan_json.h. Ranges of devices are those of `topology`.
/// InputError where a config is illegal or an operator has none.
Strategy read_strategy(const JsonValue& configs, const OperatorGraph& graph, const Topology& topology);
/// Replaces devices of `own` by those of `topology` with the same names. InputError at `configs` when there
/// are none.
void move_to(const Topology& topology, const Topology& own, const JsonValue& configs, Strategy& strategy);
/// {"operator":"fc1","split":[["b",4]],"devices":["gpu0..gpu3"]}.
std::string config_line(const Operator& op, const ParallelConfig& config, const Topology& topology);

}  // namespace pipesim
