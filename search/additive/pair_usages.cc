#include "search/additive/pair_usages.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pipesim {

PairUsages::PairUsages(IntraInstance pairs, const std::vector<std::vector<std::int64_t>>& usages)
    : instance_(std::move(pairs)), nodes_(instance_.nodes.size()), edges_(instance_.edges.size()) {
  for (std::size_t e = 0; e < usages.size(); ++e) {
    if (std::ranges::any_of(usages[e], [](std::int64_t usage) { return usage > 0; })) divide(e, usages[e]);
  }
}

void PairUsages::divide(std::size_t edge, const std::vector<std::int64_t>& usages) {
  const std::uint32_t a = instance_.edges[edge].a, b = instance_.edges[edge].b;
  const std::size_t columns = instance_.nodes[b].cost.size(), rows = usages.size() / columns;
  AddedNode added{edge, 0, std::vector<std::uint32_t>(usages.size())};
  IntraInstance::Node node;
  node.begin = instance_.nodes[b].begin;
  node.end = instance_.nodes[b].end;
  std::vector<std::size_t> column_of;  // by strategy of the node
  for (std::size_t c = 0; c < columns; ++c) {
    std::int64_t least = usages[c];
    for (std::size_t p = c; p < usages.size(); p += columns) least = std::min(least, usages[p]);
    instance_.nodes[b].usage[c] += least;
    const auto first = static_cast<std::ptrdiff_t>(node.usage.size());
    for (std::size_t p = c; p < usages.size(); p += columns) {
      const auto known = std::find(node.usage.begin() + first, node.usage.end(), usages[p] - least);
      added.of_pair[p] = static_cast<std::uint32_t>(known - node.usage.begin());
      if (known != node.usage.end()) continue;
      node.usage.push_back(usages[p] - least);
      column_of.push_back(c);
    }
  }
  // Where each strategy of the second end has one usage, that end has it all.
  if (node.usage.size() == columns) return;
  const std::size_t strategies = node.usage.size();
  node.cost.assign(strategies, 0);
  IntraInstance::Edge& before = instance_.edges[edge];
  IntraInstance::Edge on{static_cast<std::uint32_t>(instance_.nodes.size()), b, {}};
  on.cost.assign(strategies * columns, kForbidden);
  for (std::size_t s = 0; s < strategies; ++s) on.cost[s * columns + column_of[s]] = 0;
  std::vector<std::int64_t> cost(rows * strategies, kForbidden);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t p = r * columns; p < (r + 1) * columns; ++p)
      cost[r * strategies + added.of_pair[p]] = before.cost[p];
  }
  before = {a, on.a, std::move(cost)};
  instance_.nodes.push_back(std::move(node));
  added.on = instance_.edges.size();
  instance_.edges.push_back(std::move(on));
  added_.push_back(std::move(added));
}

IntraAnswer PairUsages::extended(IntraAnswer answer) const {
  for (const AddedNode& added : added_) {
    const std::uint32_t a = instance_.edges[added.edge].a, b = instance_.edges[added.on].b;
    answer.push_back(added.of_pair[answer[a] * instance_.nodes[b].cost.size() + answer[b]]);
  }
  return answer;
}

IntraAnswer PairUsages::shortened(IntraAnswer answer) const {
  answer.resize(nodes_);
  return answer;
}

void PairUsages::forbid_others(const NarrowedChoices& within) {
  for (std::size_t n = 0; n < nodes_; ++n) {
    std::vector<std::int64_t>& cost = instance_.nodes[n].cost;
    for (std::size_t s = 0; s < cost.size(); ++s) {
      if (!within.strategies[n][s]) cost[s] = kForbidden;
    }
  }
  std::vector<const AddedNode*> of_edge(edges_, nullptr);
  for (const AddedNode& added : added_) of_edge[added.edge] = &added;
  for (std::size_t e = 0; e < edges_; ++e) {
    std::vector<std::int64_t>& cost = instance_.edges[e].cost;
    const std::size_t strategies = instance_.nodes[instance_.edges[e].b].cost.size();
    const std::size_t columns =
        of_edge[e] ? instance_.nodes[instance_.edges[of_edge[e]->on].b].cost.size() : 1;
    for (std::size_t p = 0; p < within.pairs[e].size(); ++p) {
      if (within.pairs[e][p]) continue;
      cost[of_edge[e] ? p / columns * strategies + of_edge[e]->of_pair[p] : p] = kForbidden;
    }
  }
}

NarrowedChoices PairUsages::shortened(const NarrowedChoices& within) const {
  NarrowedChoices before{
      {within.strategies.begin(), within.strategies.begin() + static_cast<std::ptrdiff_t>(nodes_)},
      {within.pairs.begin(), within.pairs.begin() + static_cast<std::ptrdiff_t>(edges_)}};
  for (const AddedNode& added : added_) {
    const std::size_t node = instance_.edges[added.on].a;
    const std::size_t columns = instance_.nodes[instance_.edges[added.on].b].cost.size();
    const std::size_t strategies = within.strategies[node].size();
    std::vector<bool> pairs;
    for (std::size_t p = 0; p < added.of_pair.size(); ++p) {
      const std::size_t s = added.of_pair[p];
      pairs.push_back(within.strategies[node][s] && within.pairs[added.edge][p / columns * strategies + s] &&
                      within.pairs[added.on][s * columns + p % columns]);
    }
    before.pairs[added.edge] = std::move(pairs);
  }
  return before;
}

}  // namespace pipesim
