#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// A factor, or the replicas (ShardGrid::replica_axis), and its number of parts.
struct FactorSplit {
  FactorIndex factor = ShardGrid::replica_axis;
  std::int64_t degree = 1;
  bool operator==(const FactorSplit&) const = default;
};

/// The config that assigns `devices` in order, with the first split slowest and the last fastest, whatever
/// the order of the operator's factors. There are as many devices as the product of the degrees. Replicas may
/// be listed several times. Example: {{b, 2}, {o, 2}, {copies, 2}} on devices 0 … 7 puts the two copies of
/// each part on neighbours; b's halves are 0–3 and 4–7, and o's halves in the first are 0–1 and 2–3.
ParallelConfig arranged(const Operator& op, std::span<const FactorSplit> slowest_first,
                        std::span<const DeviceId> devices);

/// Whether factor sizes, granules and merged dimensions allow these splits.
bool can_split(const Operator& op, std::span<const FactorSplit> splits);

/// The factor that runs over the samples. It has the kind Sample and is the most major factor of the first
/// dimension of some input or output; if there is none, it is any factor of kind Sample. Nothing for
/// operators without samples.
std::optional<FactorIndex> sample_factor(const Operator& op);

/// A split of the samples into `degree` parts, or `degree` copies where the operator can't be split like
/// this.
FactorSplit sample_split(const Operator& op, std::int64_t degree);

/// The factor that a dimension follows: the most major of several; −1 for Whole.
FactorIndex major_factor(const IndexExpr& dim);

/// The first devices of the topology: the largest number of them that divides the batch.
std::vector<DeviceId> sample_devices(const OperatorGraph& graph, const Topology& topology);

/// Largest d ≤ limit that divides n.
std::int64_t largest_divisor(std::int64_t n, std::int64_t limit);

/// The number of parts of a factor on `wanted` devices: the largest divisor of `wanted` into which the factor
/// can be split.
std::int64_t parts_of(const Factor& factor, std::int64_t wanted);

/// Devices in a rectangle: `groups` rows of `members`, each row inside one node where members > 1.
struct DeviceMesh {
  std::int64_t groups = 1, members = 1;
  std::vector<DeviceId> devices;  ///< [group · members + member]

  [[nodiscard]] std::vector<DeviceId> column(std::int64_t member) const;
};

/// Rows of `members` devices inside every node, as many as `members` fits into the node with the fewest
/// devices; only the first rows whose number divides the batch.
DeviceMesh node_mesh(const Topology& topology, std::int64_t members, std::int64_t batch);

/// Devices of the node that has the fewest.
std::int64_t smallest_node(const Topology& topology);

}  // namespace pipesim
