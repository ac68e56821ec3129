#pragma once

#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// The plan as MLIR: one function, an operation "pipesim.KIND" per operator, in generic form, so that any
/// tool parses it with --allow-unregistered-dialect. Shardings are those of Shardy's dialect sdy
/// (openxla/shardy, sdy_dialect.md): a mesh for each way in which devices are arranged, whose axes are the
/// factors that an operator splits ("copies": of what is computed several times), and for each tensor the
/// axes that divide each of its dims, the major one first. Where an operator needs a tensor divided in
/// another way than it lies, sdy.sharding_constraint says so. Results of which shards hold addends are
/// `unreduced`. The same division stands beside each as GSPMD writes it, mhlo.sharding (Xu et al., 2021,
/// section 3.1), but for unreduced ones.
///
/// What Shardy has no words for is left out: halos (such a dim is divided as its factor is), biases that one
/// shard has, and the order in which microbatches run; stages stand at operations as pipesim.stage.
std::string mlir_text(const OperatorGraph& graph, const Plan& plan, const Topology& topology);

}  // namespace pipesim
