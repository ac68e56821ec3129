#pragma once

#include <functional>
#include <vector>

#include "search/exhaustive/operator_blocks.h"
#include "search/exhaustive/partial_graph.h"

namespace pipesim {

/// How many ways upstream a table keeps.
struct UpstreamEffort {
  std::size_t choices_per_origin = 64;
  std::size_t choices_of_summary = 1024;
};

/// Upstream bounds of every block of a chain under every joint config, by dynamic programming from the first
/// block on. The part upstream of a block begins with a joint config of the block before and continues like
/// one of that config's summarised choices. Between the two come exact distances in the task graph that the
/// block before and one operator of this block settle.
class UpstreamTable {
 public:
  /// `go_on` is asked from time to time; false leaves the table incomplete and useless.
  UpstreamTable(const CandidateSet& candidates, const OperatorBlocks& blocks, const PlanContents& contents,
                const UpstreamEffort& effort, const std::function<bool()>& go_on);

  [[nodiscard]] const UpstreamBound& at(std::size_t block, std::size_t joint) const {
    return bounds_[block][joint];
  }

 private:
  struct Distances;
  using Parts = std::vector<std::vector<Distances>>;  // per operator of a block and config
  void fill(std::size_t block, const std::function<bool()>& go_on);
  [[nodiscard]] UpstreamChoice alone(const BlockConfigs& block);
  [[nodiscard]] UpstreamChoice alone(const BlockConfigs& block, std::size_t joint);
  void extend(std::size_t block, const std::function<bool()>& go_on);
  void extend_from(std::size_t origin, std::size_t block, const Parts& parts);
  [[nodiscard]] Parts measure(const BlockConfigs& above, const BlockConfigs& block);
  [[nodiscard]] Distances measure(const BlockConfigs& above, OperatorId op);
  void choose(const BlockConfigs& block, std::size_t joint);
  [[nodiscard]] std::size_t num_shards(const BlockConfigs& block) const;
  void settle(const std::vector<OperatorId>& ops);

  const PlanContents& contents_;
  PartialGraph graph_;
  UpstreamEffort effort_;
  std::vector<BlockConfigs> blocks_;
  std::vector<std::vector<const BoundOperator*>> configs_;  // per operator
  BoundStrategy strategy_;
  std::vector<bool> settled_;
  std::vector<Nanoseconds> distances_;
  std::vector<std::vector<UpstreamBound>> bounds_;  // per block and joint config
};

}  // namespace pipesim
