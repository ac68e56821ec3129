#pragma once

#include <cstddef>
#include <vector>

#include "search/candidates.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// The configs that a search can give each operator, by number: first those of the candidate set, then those
/// that only the starting strategies have.
class ConfigSpace {
 public:
  ConfigSpace(const CandidateSet& candidates, const std::vector<Strategy>& starts);

  [[nodiscard]] const CandidateSet& candidates() const { return candidates_; }
  [[nodiscard]] std::size_t num_operators() const { return extra_.size(); }
  [[nodiscard]] std::size_t size(OperatorId op) const {
    return candidates_.size(op) + extra_[op.index()].size();
  }
  [[nodiscard]] ParallelConfig config(OperatorId op, std::size_t i) const;
  /// The config must be in the space.
  [[nodiscard]] std::size_t index(OperatorId op, const ParallelConfig& config) const;
  [[nodiscard]] std::vector<std::size_t> indices(const Strategy& strategy) const;
  [[nodiscard]] Strategy strategy(const std::vector<std::size_t>& indices) const;

 private:
  const CandidateSet& candidates_;
  std::vector<std::vector<ParallelConfig>> extra_;  // per operator
};

}  // namespace pipesim
