#pragma once

#include <vector>

#include "search/candidates.h"
#include "search/partial_graph.h"

namespace pipesim {

/// Upstream bounds of every operator under every config of a candidate set, by dynamic programming along the edges of
/// the operator graph: for each pair of neighbours and each pair of their configs, the exact transfers between them
/// (and, where the producer's gradient comes from this consumer alone, back) on top of the producer's own upstream
/// bounds.
class UpstreamTable {
 public:
  UpstreamTable(const CandidateSet& candidates, TaskGraphBuilder& builder);

  [[nodiscard]] const UpstreamBound& at(OperatorId op, std::size_t config) const { return bounds_[op.index()][config]; }
  [[nodiscard]] const BoundOperator* bound(OperatorId op, std::size_t config) const {
    return configs_[op.index()][config];
  }
  /// An operator's config of the fewest shards, to complete strategies with.
  [[nodiscard]] const BoundStrategy& filler() const { return filler_; }

 private:
  struct Pair;
  void fill(OperatorId op);
  [[nodiscard]] UpstreamChoice alone(OperatorId op);
  [[nodiscard]] UpstreamEdge edge(OperatorId producer, OperatorId op);
  [[nodiscard]] Pair measure(OperatorId producer, OperatorId op);
  void settle(const std::vector<OperatorId>& ops);

  const CandidateSet& candidates_;
  PartialGraph graph_;
  BoundStrategy filler_, strategy_;
  std::vector<bool> settled_;
  UpstreamBounds nothing_;
  std::vector<Nanoseconds> distances_;
  std::vector<std::vector<const BoundOperator*>> configs_;  // per operator
  std::vector<std::vector<UpstreamBound>> bounds_;          // per operator and config
};

}  // namespace pipesim
