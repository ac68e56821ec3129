#include "search/intra/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

double as_cost(std::int64_t cost) { return cost >= kForbidden ? kNever : static_cast<double>(cost); }

std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) {
  return (static_cast<std::uint64_t>(std::min(a, b)) << 32) | std::max(a, b);
}

// Moments that begin after a beginning and end with an end; each other moment's live set is part of one of
// theirs.
std::vector<std::int64_t> moments_of(const IntraInstance& instance) {
  std::vector<std::int64_t> begins, ends;
  for (const IntraInstance::Node& node : instance.nodes) {
    if (node.begin == node.end) continue;
    begins.push_back(node.begin);
    ends.push_back(node.end);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  std::vector<std::int64_t> moments;
  std::size_t begun = 0;
  for (const std::int64_t end : ends) {
    const std::size_t before = begun;
    while (begun < begins.size() && begins[begun] < end) ++begun;
    if (begun > before) moments.push_back(begins[begun - 1]);
  }
  return moments;
}

// The instance's limit, or what all nodes use at most if that is less. Sums of usages must be exact in
// doubles.
std::int64_t limit_of(const IntraInstance& instance) {
  constexpr WideCost kMost = WideCost{1} << 53;
  WideCost all = 0, counted = 0;
  for (const IntraInstance::Node& node : instance.nodes) {
    const std::int64_t most = std::ranges::max(node.usage);
    all += most;
    counted += std::min<WideCost>(most, WideCost{instance.limit} + 1);
  }
  if (counted > kMost)
    throw InputError(fmt::format("the largest usages of all nodes add up to {}, allowed: at most {}",
                                 to_string(counted), to_string(kMost)));
  return static_cast<std::int64_t>(std::min<WideCost>(instance.limit, all));
}

}  // namespace

IntraModel::IntraModel(const IntraInstance& instance) : time(moments_of(instance)) {
  const std::int64_t limit = limit_of(instance);
  capacity.assign(time.size(), limit);
  nodes.resize(instance.nodes.size());
  std::vector<std::int64_t> least_change(time.size() + 1, 0);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const IntraInstance::Node& from = instance.nodes[i];
    Node& node = nodes[i];
    for (const std::int64_t cost : from.cost) node.cost.push_back(as_cost(cost));
    for (std::uint32_t s = 0; s < from.cost.size(); ++s) node.strategy.push_back(s);
    const auto row = [&](std::int64_t moment) {
      return static_cast<std::uint32_t>(std::ranges::lower_bound(time, moment) - time.begin());
    };
    const std::uint32_t begin = row(from.begin), end = row(from.end);
    if (begin == end) continue;
    std::vector<std::int64_t> usage = from.usage;
    for (std::int64_t& u : usage) u = std::min(u, limit + 1);
    const std::int64_t least = std::ranges::min(usage);
    least_change[begin] += least;
    least_change[end] -= least;
    for (std::size_t s = 0; s < usage.size(); ++s) {
      if (usage[s] > limit) node.cost[s] = kNever;
    }
    if (std::ranges::max(usage) > 0) node.parts.push_back({begin, end, std::move(usage)});
  }
  std::int64_t least = 0, worst = 0;
  std::size_t worst_row = 0;
  for (std::size_t r = 0; r < time.size(); ++r) {
    least += least_change[r];
    if (least > worst) worst = least, worst_row = r;
  }
  if (worst > instance.limit)
    throw InputError(
        fmt::format("at time {} the usage is at least {}, {} over the limit {}, whatever is chosen",
                    time[worst_row], worst, worst - instance.limit, instance.limit));
  for (const IntraInstance::Edge& edge : instance.edges) {
    std::vector<double> table(edge.cost.size());
    std::ranges::transform(edge.cost, table.begin(), as_cost);
    if (edge.a == edge.b) {
      Node& node = nodes[edge.a];
      for (std::size_t s = 0; s < node.cost.size(); ++s) node.cost[s] += table[s * node.cost.size() + s];
    } else {
      add_table(edge.a, edge.b, table);
    }
  }
}

std::uint32_t IntraModel::edge_between(std::uint32_t a, std::uint32_t b) {
  const auto [at, is_new] = edge_of_.try_emplace(pair_key(a, b), static_cast<std::uint32_t>(edges.size()));
  if (is_new) {
    edges.push_back({a, b, std::vector<double>(nodes[a].cost.size() * nodes[b].cost.size(), 0), true,
                     static_cast<std::uint32_t>(nodes[a].edges.size()),
                     static_cast<std::uint32_t>(nodes[b].edges.size())});
    nodes[a].edges.push_back(at->second);
    nodes[b].edges.push_back(at->second);
  }
  return at->second;
}

void IntraModel::add_table(std::uint32_t a, std::uint32_t b, const std::vector<double>& table) {
  Edge& edge = edges[edge_between(a, b)];
  const std::size_t rows = nodes[a].cost.size(), columns = nodes[b].cost.size();
  for (std::size_t x = 0; x < rows; ++x) {
    for (std::size_t y = 0; y < columns; ++y)
      edge.cost[edge.a == a ? x * columns + y : y * rows + x] += table[x * columns + y];
  }
}

void IntraModel::remove_edge(std::uint32_t edge) {
  Edge& removed = edges[edge];
  removed.left = false;
  removed.cost = {};
  forget_edge(removed.a, removed.at_a);
  forget_edge(removed.b, removed.at_b);
  edge_of_.erase(pair_key(removed.a, removed.b));
}

// The last one takes its place: some nodes have thousands.
void IntraModel::forget_edge(std::uint32_t node, std::uint32_t at) {
  std::vector<std::uint32_t>& of_node = nodes[node].edges;
  Edge& moved = edges[of_node.back()];
  (moved.a == node ? moved.at_a : moved.at_b) = at;
  of_node[at] = of_node.back();
  of_node.pop_back();
}

void IntraModel::keep(std::uint32_t node, const std::vector<bool>& kept) {
  const auto keep_marked = [&](auto& values) {
    std::size_t to = 0;
    for (std::size_t s = 0; s < kept.size(); ++s) {
      if (kept[s]) values[to++] = values[s];
    }
    values.resize(to);
  };
  for (const std::uint32_t e : nodes[node].edges) {
    Edge& edge = edges[e];
    const std::size_t columns = nodes[edge.b].cost.size();
    std::size_t to = 0;
    for (std::size_t c = 0; c < edge.cost.size(); ++c) {
      if (kept[edge.a == node ? c / columns : c % columns]) edge.cost[to++] = edge.cost[c];
    }
    edge.cost.resize(to);
  }
  keep_marked(nodes[node].cost);
  keep_marked(nodes[node].strategy);
  for (Part& part : nodes[node].parts) keep_marked(part.usage);
}

void IntraModel::add_part(std::uint32_t node, Part part) {
  for (Part& old : nodes[node].parts) {
    if (old.begin != part.begin || old.end != part.end) continue;
    for (std::size_t s = 0; s < old.usage.size(); ++s) old.usage[s] += part.usage[s];
    return;
  }
  nodes[node].parts.push_back(std::move(part));
}

void IntraModel::share_vanished() {
  if (vanished.empty()) return;
  vanished_before.push_back(std::make_shared<const std::vector<Vanished>>(std::move(vanished)));
  vanished = {};
}

void IntraModel::restore(IntraAnswer& answer) const {
  const auto restore_all = [&](const std::vector<Vanished>& all) {
    for (auto gone = all.rbegin(); gone != all.rend(); ++gone) {
      std::size_t at = 0;
      for (std::size_t g = 0; g < gone->given.size(); ++g) at = at * gone->sizes[g] + answer[gone->given[g]];
      answer[gone->node] = gone->choice[at];
    }
  };
  restore_all(vanished);
  for (auto before = vanished_before.rbegin(); before != vanished_before.rend(); ++before)
    restore_all(**before);
}

}  // namespace pipesim
