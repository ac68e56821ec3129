#pragma once

#include <cstddef>
#include <vector>

#include "search/candidates.h"

namespace pipesim {

/// Operators cut into blocks B0, B1, … so that every edge of the graph stays inside a block or leads from one
/// to the next: a chain of blocks, in topological order. Operators of a block are ascending. Examples: a
/// chain has a block per operator; an unrolled network of steps and layers a block per layer.
using OperatorBlocks = std::vector<std::vector<OperatorId>>;

/// Blocks by distance from the operators that read nothing from others. Blocks are joined where an edge would
/// lead back.
OperatorBlocks chain_of_blocks(const OperatorGraph& graph);

/// The joint configs of one block's operators, numbered like digits, the last operator's config fastest.
class BlockConfigs {
 public:
  BlockConfigs(const CandidateSet& candidates, std::vector<OperatorId> ops);

  [[nodiscard]] const std::vector<OperatorId>& ops() const { return ops_; }
  /// SIZE_MAX when there are more.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The config of the block's i-th operator.
  [[nodiscard]] std::size_t config(std::size_t joint, std::size_t i) const {
    return joint / stride_[i] % sizes_[i];
  }

 private:
  std::vector<OperatorId> ops_;
  std::vector<std::size_t> sizes_, stride_;
  std::size_t size_ = 1;
};

}  // namespace pipesim
