#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/runtime/runtime.h"
#include "models/operator_graph.h"
#include "sim/base/json_reader.h"
#include "taskgraph/plan/plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// A plan as it stands in a file: which model on which topology, and how every operator is split and placed.
struct Plan {
  std::string model;              ///< what --model said: a preset with options, or a file
  std::string topology;           ///< what --topology said
  std::string model_fingerprint;  ///< OperatorGraph::fingerprint() of what it was made for; empty: not known
  std::string topology_fingerprint;  ///< Topology::fingerprint() of what it was made for; empty: not known
  PlanOptions options;
  std::string found_by;  ///< name of the algorithm; "" when written by hand
  std::uint64_t seed = 0;
  Strategy strategy;
  Runtime runtime = {};     ///< what runs it, for predictions
  std::string recipe = {};  ///< what practitioners call it (search/recipes); "" where nobody said
  bool operator==(const Plan&) const = default;
};

/// A plan file that was read, but whose configs were not parsed yet. They need the model and the topology,
/// whose names are in the file.
class PlanFile {
 public:
  static PlanFile parse(std::string_view text, const std::string& source);
  static PlanFile load(const std::string& path);
  [[nodiscard]] const std::string& model() const { return plan_.model; }
  [[nodiscard]] const std::string& topology() const { return plan_.topology; }
  [[nodiscard]] const std::string& model_fingerprint() const { return plan_.model_fingerprint; }
  [[nodiscard]] const std::string& topology_fingerprint() const { return plan_.topology_fingerprint; }

  /// The whole plan, checked against the graph and the topology. These may differ from the ones that the plan
  /// was made for: the plan must have a config for each operator, and devices are looked up by name.
  /// InputError with file and JSON pointer: unknown operators, factors or devices, operators without a
  /// config, illegal configs.
  [[nodiscard]] Plan read(const OperatorGraph& graph, const Topology& topology) const {
    return read(graph, topology, topology);
  }
  /// The same, but ranges of devices and "all" refer to `own`, the topology that the plan was made for.
  /// InputError that names the plan's devices that `topology` lacks.
  [[nodiscard]] Plan read(const OperatorGraph& graph, const Topology& topology, const Topology& own) const;

 private:
  PlanFile(Plan plan, JsonValue root) : plan_(std::move(plan)), root_(std::move(root)) {}
  Plan plan_;
  JsonValue root_;
};

/// Writes versioned JSON, one config a line: {"operator": "fc1", "split": [["b", 4], ["o", 2]], "devices":
/// ["gpu0..gpu7"]}. Splits are listed slowest first; replicas are slowest of all. "gpu0..gpu7" is a range in
/// the topology's order, and "all" means every device in order. The members above the configs are the
/// PlanOptions by name: "optimizer", "gradient_type", "gradient_piece", and "microbatches" where there are
/// several, those of write_policies(), "recipe", "found_by" and "seed". A pipeline has "schedule", "stages"
/// and, where replicas take turns, "replicas", a number per stage. "stages" is a list of operators per stage,
/// in which "conv1..fc6" is a range in the model's order. "recompute" is "selective", "full", "stage", or a
/// list of segments; a segment is such a list of operators, or a single entry. Reads back to an equal plan.
std::string to_json(const Plan& plan, const OperatorGraph& graph, const Topology& topology);

}  // namespace pipesim
