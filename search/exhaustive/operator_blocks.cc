#include "search/exhaustive/operator_blocks.h"

#include <algorithm>
#include <deque>

namespace pipesim {
namespace {

using Edges = std::vector<std::pair<std::size_t, std::size_t>>;

Edges edges_of(const OperatorGraph& graph) {
  Edges edges;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    for (const TensorUse& use : graph.operators()[i].uses) {
      const OperatorId producer = graph.tensor(use.tensor).producer;
      if (use.role != Role::Output && producer.valid()) edges.emplace_back(producer.index(), i);
    }
  }
  return edges;
}

// Edges taken in either direction; neighbours differ by at most 1.
std::vector<std::size_t> distances(std::size_t n, const Edges& edges) {
  std::vector<std::vector<std::size_t>> neighbours(n);
  std::vector<bool> reads(n, false);
  for (const auto& [from, to] : edges) {
    neighbours[from].push_back(to);
    neighbours[to].push_back(from);
    reads[to] = true;
  }
  std::vector<std::size_t> distance(n, SIZE_MAX);
  std::deque<std::size_t> queue;
  for (std::size_t i = 0; i < n; ++i) {
    if (reads[i]) continue;
    distance[i] = 0;
    queue.push_back(i);
  }
  for (; !queue.empty(); queue.pop_front()) {
    for (const std::size_t next : neighbours[queue.front()]) {
      if (distance[next] != SIZE_MAX) continue;
      distance[next] = distance[queue.front()] + 1;
      queue.push_back(next);
    }
  }
  return distance;
}

}  // namespace

OperatorBlocks chain_of_blocks(const OperatorGraph& graph) {
  const std::size_t n = graph.operators().size();
  const Edges edges = edges_of(graph);
  const std::vector<std::size_t> distance = distances(n, edges);
  std::vector<bool> joins_next(n, false);
  for (const auto& [from, to] : edges) {
    for (std::size_t d = distance[to]; d < distance[from]; ++d) joins_next[d] = true;
  }
  std::vector<std::size_t> block_of_distance(n + 1, 0);
  for (std::size_t d = 0; d < n; ++d)
    block_of_distance[d + 1] = block_of_distance[d] + (joins_next[d] ? 0 : 1);
  OperatorBlocks blocks(block_of_distance[*std::max_element(distance.begin(), distance.end())] + 1);
  for (std::size_t i = 0; i < n; ++i) blocks[block_of_distance[distance[i]]].emplace_back(i);
  return blocks;
}

BlockConfigs::BlockConfigs(const CandidateSet& candidates, std::vector<OperatorId> ops)
    : ops_(std::move(ops)), sizes_(ops_.size()), stride_(ops_.size()) {
  for (std::size_t i = ops_.size(); i-- > 0;) {
    sizes_[i] = candidates.size(ops_[i]);
    stride_[i] = size_;
    size_ = sizes_[i] > SIZE_MAX / size_ ? SIZE_MAX : size_ * sizes_[i];
  }
}

}  // namespace pipesim
