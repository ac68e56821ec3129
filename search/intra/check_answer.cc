#include "search/intra/check_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/errors.h"

namespace pipesim {

std::string to_string(WideCost cost) {
  std::string digits;
  const bool negative = cost < 0;
  do {
    const int digit = static_cast<int>(cost % 10);
    digits += static_cast<char>('0' + (negative ? -digit : digit));
    cost /= 10;
  } while (cost != 0);
  if (negative) digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

CheckedAnswer check_answer(const IntraInstance& instance, const IntraAnswer& answer) {
  if (answer.size() != instance.nodes.size()) throw InternalError("an answer needs a strategy for each node");
  CheckedAnswer checked;
  std::map<std::int64_t, WideCost> changes;  // of usage, by time
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const IntraInstance::Node& node = instance.nodes[i];
    if (answer[i] >= node.cost.size())
      throw InternalError("an answer has a strategy that its node does not have");
    const std::int64_t cost = node.cost[answer[i]];
    if (cost < kForbidden) {
      checked.cost += cost;
    } else if (checked.broken.empty()) {
      checked.broken = fmt::format("node {}: strategy {} is forbidden", i, answer[i]);
    }
    if (node.begin < node.end) {
      changes[node.begin] += node.usage[answer[i]];
      changes[node.end] -= node.usage[answer[i]];
    }
  }
  for (std::size_t e = 0; e < instance.edges.size(); ++e) {
    const IntraInstance::Edge& edge = instance.edges[e];
    const std::size_t columns = instance.nodes[edge.b].cost.size();
    const std::int64_t cost = edge.cost[answer[edge.a] * columns + answer[edge.b]];
    if (cost < kForbidden) {
      checked.cost += cost;
    } else if (checked.broken.empty()) {
      checked.broken = fmt::format("edge {}: strategy {} of node {} forbids strategy {} of node {}", e,
                                   answer[edge.a], edge.a, answer[edge.b], edge.b);
    }
  }
  WideCost used = 0, most = 0;
  for (const auto& [time, change] : changes) {
    used += change;
    if (used > most) most = used, checked.most_used_at = time;
  }
  checked.most_used = static_cast<std::int64_t>(most);
  if (most > instance.limit && checked.broken.empty())
    checked.broken = fmt::format("at time {} the usage is {}, {} over the limit {}", checked.most_used_at,
                                 to_string(most), to_string(most - instance.limit), instance.limit);
  return checked;
}

}  // namespace pipesim
