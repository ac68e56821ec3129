#include "search/pipelines/grouped_layers.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace pipesim {
namespace {

std::size_t slot_of(std::int32_t v) { return static_cast<std::size_t>(v); }

// Groups of a union-find forest.
class Merged {
 public:
  explicit Merged(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::int32_t root(std::int32_t v) {
    while (parent_[slot_of(v)] != v) v = parent_[slot_of(v)] = parent_[slot_of(parent_[slot_of(v)])];
    return v;
  }
  void merge(std::int32_t a, std::int32_t b) { parent_[slot_of(root(a))] = root(b); }

 private:
  std::vector<std::int32_t> parent_;
};

// Numbers groups in an order in which they feed each other, those with the first layers first where it is
// free.
GroupedLayers groups_in_order(const LayerGraph& graph, const std::vector<std::int32_t>& root) {
  const auto n = static_cast<std::int32_t>(graph.size());
  std::vector<std::set<std::int32_t>> readers(graph.size());
  std::vector<std::int32_t> unmet(graph.size(), 0);
  for (std::int32_t v = 0; v < n; ++v) {
    for (const std::int32_t w : graph.consumers(v)) {
      if (root[slot_of(v)] != root[slot_of(w)] &&
          readers[slot_of(root[slot_of(v)])].insert(root[slot_of(w)]).second)
        ++unmet[slot_of(root[slot_of(w)])];
    }
  }
  std::vector<std::int32_t> first(graph.size(), -1);  // layer, by root
  for (std::int32_t v = n; v-- > 0;) first[slot_of(root[slot_of(v)])] = v;
  std::set<std::pair<std::int32_t, std::int32_t>> ready;  // first layer, root
  for (std::int32_t v = 0; v < n; ++v) {
    if (root[slot_of(v)] == v && unmet[slot_of(v)] == 0) ready.emplace(first[slot_of(v)], v);
  }
  std::vector<std::int32_t> number(graph.size(), -1);
  std::int32_t groups = 0;
  while (!ready.empty()) {
    const std::int32_t group = ready.begin()->second;
    ready.erase(ready.begin());
    number[slot_of(group)] = groups++;
    for (const std::int32_t reader : readers[slot_of(group)]) {
      if (--unmet[slot_of(reader)] == 0) ready.emplace(first[slot_of(reader)], reader);
    }
  }
  std::vector<Layer> layers(slot_of(groups));
  std::vector<LayerGraph::Edge> edges;
  std::vector<std::int32_t> group_of;
  for (std::int32_t v = 0; v < n; ++v) {
    const std::int32_t own = number[slot_of(root[slot_of(v)])];
    group_of.push_back(own);
    Layer& layer = layers[slot_of(own)];
    if (layer.name.empty()) layer.name = graph[v].name;
    layer.forward += graph[v].forward;
    layer.backward += graph[v].backward;
    layer.parameters += graph[v].parameters;
    bool leaves = graph.consumers(v).empty();
    for (const std::int32_t w : graph.consumers(v)) {
      const std::int32_t other = number[slot_of(root[slot_of(w)])];
      if (other == own) continue;
      edges.emplace_back(own, other);
      leaves = true;
    }
    if (leaves) layer.output += graph[v].output;
  }
  return {{std::move(layers), edges}, std::move(group_of)};
}

}  // namespace

GroupedLayers kept_together(const LayerGraph& graph, const std::vector<std::vector<std::int32_t>>& together) {
  const auto n = static_cast<std::int32_t>(graph.size());
  Merged merged(graph.size());
  for (const std::vector<std::int32_t>& list : together) {
    for (const std::int32_t v : list) merged.merge(v, list.front());
  }
  // Groups that feed each other in a circle are one. Those of a circle are found by Tarjan's algorithm on the
  // graph of groups, without recursion, until none is left.
  std::vector<std::vector<std::int32_t>> readers(graph.size());
  for (std::int32_t v = 0; v < n; ++v) {
    for (const std::int32_t w : graph.consumers(v)) {
      if (merged.root(v) != merged.root(w)) readers[slot_of(merged.root(v))].push_back(merged.root(w));
    }
  }
  std::vector<std::int32_t> index(graph.size(), -1), low(graph.size(), 0), open;
  std::vector<bool> is_open(graph.size(), false);
  std::vector<std::pair<std::int32_t, std::size_t>> calls;  // group, its next reader
  std::int32_t next = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> alike;
  for (std::int32_t start = 0; start < n; ++start) {
    if (merged.root(start) != start || index[slot_of(start)] >= 0) continue;
    calls.emplace_back(start, 0);
    while (!calls.empty()) {
      const std::int32_t v = calls.back().first;
      if (calls.back().second == 0 && index[slot_of(v)] < 0) {
        index[slot_of(v)] = low[slot_of(v)] = next++;
        open.push_back(v);
        is_open[slot_of(v)] = true;
      }
      if (calls.back().second < readers[slot_of(v)].size()) {
        const std::int32_t w = readers[slot_of(v)][calls.back().second++];
        if (index[slot_of(w)] < 0) {
          calls.emplace_back(w, 0);
        } else if (is_open[slot_of(w)]) {
          low[slot_of(v)] = std::min(low[slot_of(v)], index[slot_of(w)]);
        }
        continue;
      }
      calls.pop_back();
      if (!calls.empty())
        low[slot_of(calls.back().first)] = std::min(low[slot_of(calls.back().first)], low[slot_of(v)]);
      if (low[slot_of(v)] != index[slot_of(v)]) continue;
      for (std::int32_t w = -1; w != v;) {
        w = open.back();
        open.pop_back();
        is_open[slot_of(w)] = false;
        alike.emplace_back(w, v);
      }
    }
  }
  for (const auto& [a, b] : alike) merged.merge(a, b);
  std::vector<std::int32_t> root;
  for (std::int32_t v = 0; v < n; ++v) root.push_back(merged.root(v));
  return groups_in_order(graph, root);
}

GroupedLayers compressed_branches(const LayerGraph& graph) {
  const auto n = static_cast<std::int32_t>(graph.size());
  Merged merged(graph.size());
  std::vector<bool> in_branch(graph.size(), false);
  for (std::int32_t v = 0; v < n; ++v) {
    // A line begins behind a layer that feeds several, and goes on while one layer feeds one other.
    for (const std::int32_t w : graph.consumers(v)) {
      if (graph.inputs(w).size() != 1) continue;
      if (graph.consumers(v).size() > 1) {
        in_branch[slot_of(w)] = true;
      } else if (in_branch[slot_of(v)]) {
        in_branch[slot_of(w)] = true;
        merged.merge(w, v);
      }
    }
  }
  std::vector<std::int32_t> root;
  for (std::int32_t v = 0; v < n; ++v) root.push_back(merged.root(v));
  return groups_in_order(graph, root);
}

GroupedLayers grouped(const GroupedLayers& inner, const GroupedLayers& outer) {
  std::vector<std::int32_t> group_of;
  for (const std::int32_t group : inner.group_of) group_of.push_back(outer.group_of[slot_of(group)]);
  return {outer.graph, std::move(group_of)};
}

}  // namespace pipesim
