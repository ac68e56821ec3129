#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/alpa/stage_partition.h"
#include "search/pipelines/layer_graph.h"

namespace pipesim {

/// Where a stage of less than a node hands its outputs to. A dynamic program over sizes does not know that.
enum class NextStage : std::uint8_t { InNode, OtherNode };

/// The operators of a model in clusters, of which stages consist (Alpa, OSDI 2022, section 5.2), and what
/// stages on the first devices of the topology hand on.
class StageClusters {
 public:
  /// Makes this number of clusters, or as many as possible. `schedule` limits them, see inseparable_layers().
  StageClusters(const OperatorGraph& graph, const CostModel& costs, std::int32_t clusters,
                const std::string& schedule);

  [[nodiscard]] std::size_t size() const { return leaving_.size(); }
  [[nodiscard]] const std::vector<std::int32_t>& cluster_of() const { return cluster_of_; }  ///< by operator
  /// Returns the bytes that clusters behind this one read from it and from those before it.
  [[nodiscard]] Bytes leaving(std::size_t cluster) const { return leaving_[cluster]; }
  /// Returns the time to transfer what leaves the last cluster of a stage on so many devices, forward and
  /// backward. `next`: where the stage behind it is. InNode: the data takes one way per device, or one per
  /// node where the stage has whole nodes, to the next submesh. OtherNode: each device sends a part to a
  /// device behind these and outside their node; ways that share a link share its bandwidth. 0 behind the
  /// last cluster.
  [[nodiscard]] Seconds transfer_time(std::int64_t devices, std::size_t last, NextStage next) const;
  /// Returns options whose times are for NextStage::InNode with the times for NextStage::OtherNode.
  [[nodiscard]] std::vector<StageOption> across_nodes(std::vector<StageOption> options) const;
  /// Returns the communicators that a device is in: for tensor parts, for copies, and for sends between
  /// stages.
  [[nodiscard]] std::int32_t communicators(std::int64_t devices, std::int64_t tensor) const;

 private:
  [[nodiscard]] Seconds to_other_node(std::int64_t devices, std::size_t last) const;

  const Topology& topology_;
  std::vector<std::int32_t> cluster_of_;
  std::vector<Bytes> leaving_;
};

}  // namespace pipesim
