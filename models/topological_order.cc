#include "models/topological_order.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace pipesim {
namespace {

/// Every node left over has a predecessor that is left over, so walking backwards must come round.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& predecessors,
                                    const std::vector<std::size_t>& unmet) {
  const auto left = [&](std::size_t v) { return unmet[v] > 0; };
  std::size_t v = 0;
  while (!left(v)) ++v;
  std::vector<std::size_t> walk;
  std::vector<bool> seen(predecessors.size(), false);
  while (!seen[v]) {
    seen[v] = true;
    walk.push_back(v);
    v = *std::find_if(predecessors[v].begin(), predecessors[v].end(), left);
  }
  std::vector<std::size_t> cycle(std::find(walk.begin(), walk.end(), v), walk.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

}  // namespace

TopologicalOrder topological_order(const std::vector<std::vector<std::size_t>>& predecessors) {
  const std::size_t n = predecessors.size();
  std::vector<std::size_t> unmet(n);
  std::vector<std::vector<std::size_t>> successors(n);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t v = 0; v < n; ++v) {
    unmet[v] = predecessors[v].size();
    if (unmet[v] == 0) ready.push(v);
    for (const std::size_t p : predecessors[v]) successors[p].push_back(v);
  }
  TopologicalOrder result;
  while (!ready.empty()) {
    const std::size_t v = ready.top();
    ready.pop();
    result.order.push_back(v);
    for (const std::size_t s : successors[v]) {
      if (--unmet[s] == 0) ready.push(s);
    }
  }
  if (result.order.size() < n) result.cycle = find_cycle(predecessors, unmet);
  return result;
}

std::string cycle_text(const std::vector<std::size_t>& cycle, const std::vector<std::string>& names) {
  std::string text;
  for (const std::size_t v : cycle) text += names[v] + " -> ";
  return text + names[cycle.front()];
}

}  // namespace pipesim
