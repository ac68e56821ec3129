#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan_json.h"
#include "topologies/topology.h"

namespace pipesim {

/// Says that a plan is used with another model or topology than it was made for.
struct OtherOrigin {
  std::string made_for;           ///< "topology p100-4x4:1"
  std::string unknown;            ///< why it is not known what differs: "can't be opened"; else ""
  std::vector<std::string> here;  ///< "6 of 6 links have 5 GB/s instead of 20 GB/s (such as gpu0 - gpu1)"
  bool operator==(const OtherOrigin&) const = default;
};

struct PlanOrigin {
  std::vector<OtherOrigin> others;   ///< at most one for the model and one for the topology
  std::optional<Topology> topology;  ///< that the plan was made for, where it is another and can be opened
};

/// Compares, by fingerprints, the model and topology that the plan was made for with the given ones. When
/// they differ, opens the former by the names in the plan, to tell what differs.
PlanOrigin origin_of(const PlanFile& plan, const OperatorGraph& graph, const Topology& topology);

/// The plan for this model and topology, see PlanFile::read(). `others` receives the ones that it was made
/// for, if different.
Plan read_plan(const PlanFile& file, const OperatorGraph& graph, const Topology& topology,
               std::vector<OtherOrigin>& others);

/// What differs, in a few words each: number and kinds of devices, links.
std::vector<std::string> differences(const Topology& before, const Topology& now);
/// The same of models with the same operators: batch, types and shapes of tensors, attributes.
std::vector<std::string> differences(const OperatorGraph& before, const OperatorGraph& now);

}  // namespace pipesim
