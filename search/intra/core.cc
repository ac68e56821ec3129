#include "search/intra/core.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace pipesim {

IntraCore::IntraCore(const IntraModel& model) : time(model.time), constant(model.constant) {
  std::vector<std::uint32_t> number(model.nodes.size(), 0);
  for (std::uint32_t i = 0; i < model.nodes.size(); ++i) {
    const IntraModel::Node& from = model.nodes[i];
    if (!from.left) continue;
    number[i] = static_cast<std::uint32_t>(nodes.size());
    Node node{i, costs.size(), static_cast<std::uint32_t>(from.cost.size()), {}, {}, from.strategy};
    costs.insert(costs.end(), from.cost.begin(), from.cost.end());
    for (const IntraModel::Part& part : from.parts)
      node.parts.push_back({part.begin, part.end, {part.usage.begin(), part.usage.end()}});
    nodes.push_back(std::move(node));
  }
  capacity.assign(model.capacity.begin(), model.capacity.end());
  // Layers are alike, and so are their tables: each is stored once, which keeps more of them in the cache.
  std::unordered_multimap<std::size_t, std::size_t> places;
  const auto place_of = [&](const std::vector<double>& table) {
    std::size_t hash = table.size();
    for (const double cost : table)
      hash = hash * 0x9e3779b97f4a7c15U + std::bit_cast<std::uint64_t>(cost) + (hash >> 29);
    const auto [first, last] = places.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const std::size_t place = at->second;
      if (place + table.size() <= tables.size() &&
          std::equal(table.begin(), table.end(), tables.begin() + static_cast<std::ptrdiff_t>(place)))
        return place;
    }
    const std::size_t place = tables.size();
    places.emplace(hash, place);
    tables.insert(tables.end(), table.begin(), table.end());
    return place;
  };
  std::vector<double> across;
  for (const IntraModel::Edge& edge : model.edges) {
    if (!edge.left) continue;
    const std::uint32_t a = number[edge.a], b = number[edge.b];
    const std::size_t rows_of = nodes[a].size, columns = nodes[b].size;
    const std::size_t to_a = messages, to_b = messages + rows_of;
    messages += rows_of + columns;
    const auto e = static_cast<std::uint32_t>(num_edges++);
    across.clear();
    for (std::size_t y = 0; y < columns; ++y) {
      for (std::size_t x = 0; x < rows_of; ++x) across.push_back(edge.cost[x * columns + y]);
    }
    nodes[b].sides.push_back({e, a, false, place_of(edge.cost), to_b, to_a});
    nodes[a].sides.push_back({e, b, true, place_of(across), to_a, to_b});
    cells += edge.cost.size();
  }
  for (Node& node : nodes) std::ranges::sort(node.sides, {}, &Side::other);
}

std::vector<double> IntraCore::messages_from(const IntraCore& other, const std::vector<double>& from) const {
  std::vector<double> to(messages, 0);
  std::size_t j = 0;
  for (const Node& node : nodes) {
    while (j < other.nodes.size() && other.nodes[j].number < node.number) ++j;
    if (j == other.nodes.size() || other.nodes[j].number != node.number) continue;
    const Node& old = other.nodes[j];
    std::size_t k = 0;  // the sides of both ascend
    for (const Side& side : node.sides) {
      const std::uint32_t end = nodes[side.other].number;
      while (k < old.sides.size() && other.nodes[old.sides[k].other].number < end) ++k;
      if (k == old.sides.size() || other.nodes[old.sides[k].other].number != end) continue;
      for (std::size_t x = 0; x < node.size; ++x) {
        const auto label = std::ranges::lower_bound(old.strategy, node.strategy[x]);
        if (label != old.strategy.end() && *label == node.strategy[x])
          to[side.own + x] = from[old.sides[k].own + static_cast<std::size_t>(label - old.strategy.begin())];
      }
    }
  }
  return to;
}

double IntraCore::cost(const std::vector<std::uint32_t>& choice) const {
  double sum = 0;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    sum += costs[nodes[i].first + choice[i]];
    for (const Side& side : nodes[i].sides) {
      if (side.first) sum += tables[side.table + choice[side.other] * nodes[i].size + choice[i]];
    }
  }
  return sum;
}

std::vector<std::uint32_t> IntraCore::choice_of(const IntraAnswer& answer) const {
  std::vector<std::uint32_t> choice;
  for (const Node& node : nodes) {
    const auto at = std::ranges::lower_bound(node.strategy, answer[node.number]);
    choice.push_back(static_cast<std::uint32_t>(
        std::min<std::ptrdiff_t>(at - node.strategy.begin(), static_cast<std::ptrdiff_t>(node.size) - 1)));
  }
  return choice;
}

void IntraCore::put(const std::vector<std::uint32_t>& choice, IntraAnswer& answer) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) answer[nodes[i].number] = nodes[i].strategy[choice[i]];
}

void IntraCore::add_usage(std::uint32_t node, std::uint32_t strategy, double sign,
                          std::span<double> used) const {
  for (const Part& part : nodes[node].parts) {
    const double usage = sign * part.usage[strategy];
    if (usage == 0) continue;
    for (std::uint32_t r = part.begin; r < part.end; ++r) used[r] += usage;
  }
}

double IntraCore::overuse(std::span<const double> used) const {
  double worst = -kNever;
  for (std::size_t r = 0; r < used.size(); ++r) worst = std::max(worst, used[r] - capacity[r]);
  return worst;
}

}  // namespace pipesim
