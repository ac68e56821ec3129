#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/alpa/stage_partition.h"
#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// Where a stage of less than a node hands its outputs to. A dynamic program over sizes does not know.
enum class NextStage : std::uint8_t { InNode, OtherNode };

/// The operators of a model in clusters, of which stages consist (Alpa, OSDI 2022, section 5.2), and what
/// stages on the first devices of the topology hand on.
class StageClusters {
 public:
  /// As many clusters, or as many as possible. `schedule`: it limits them, see inseparable_layers().
  StageClusters(const OperatorGraph& graph, const CostModel& costs, std::int32_t clusters,
                const std::string& schedule);

  [[nodiscard]] std::size_t size() const { return leaving_.size(); }
  [[nodiscard]] const std::vector<std::int32_t>& cluster_of() const { return cluster_of_; }  ///< by operator
  /// What clusters behind it read of it and of those before.
  [[nodiscard]] Bytes leaving(std::size_t cluster) const { return leaving_[cluster]; }
  /// Forward and backward of what leaves the last cluster of a stage on so many devices. `next`: where the
  /// stage behind it is. InNode: over the ways to the next submesh, one a device, or a node where it has
  /// several nodes. OtherNode: each device sends a part to a device behind these and outside their node; the
  /// ways that share a link each have a part of it. 0 behind the last cluster.
  [[nodiscard]] Seconds transfer_time(std::int64_t devices, std::size_t last, NextStage next) const;
  /// Of options with times for NextStage::InNode, the same with times for OtherNode.
  [[nodiscard]] std::vector<StageOption> across_nodes(std::vector<StageOption> options) const;
  /// Of a device: for tensor parts, for copies, and for sends between stages.
  [[nodiscard]] std::int32_t communicators(std::int64_t devices, std::int64_t tensor) const;

 private:
  [[nodiscard]] Seconds to_other_node(std::int64_t devices, std::size_t last) const;

  const Topology& topology_;
  std::vector<std::int32_t> cluster_of_;
  std::vector<Bytes> leaving_;
};

}  // namespace pipesim
