#include "topologies/node_routes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

namespace pipesim {

namespace {

std::size_t at_index(std::int32_t i) { return static_cast<std::size_t>(i); }

// What is reached next: the least cost first.
using Front = std::priority_queue<std::pair<RouteCost, std::int32_t>,
                                  std::vector<std::pair<RouteCost, std::int32_t>>, std::greater<>>;

}  // namespace

std::unique_ptr<NodeRoutes> NodeRoutes::find(const TopologyParts& parts, const std::vector<bool>& hangs,
                                             std::size_t tree_bytes) {
  if (parts.nodes.size() < 2) return nullptr;
  std::unique_ptr<NodeRoutes> routes(new NodeRoutes(parts));
  if (!routes->add_links(hangs) || !routes->nothing_passes_through()) return nullptr;
  std::size_t most = 0;
  for (const auto& members : routes->members_) most = std::max(most, members.size());
  routes->trees_ = std::make_unique<TreeCache<Tree>>(
      tree_bytes, (sizeof(RouteCost) + sizeof(Arc)) * (routes->network_.size() + most));
  return routes;
}

std::int32_t NodeRoutes::node_of(std::int32_t vertex) const {
  return at_index(vertex) < parts_.devices.size() ? parts_.devices[at_index(vertex)].node
                                                  : parts_.vertices[at_index(vertex)].node;
}

bool NodeRoutes::add_links(const std::vector<bool>& hangs) {
  members_.resize(parts_.nodes.size());
  for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
    const auto v = static_cast<std::int32_t>(i);
    std::vector<std::int32_t>& list = node_of(v) < 0 ? network_ : members_[at_index(node_of(v))];
    place_.push_back(list.size());
    if (!hangs[i]) list.push_back(v);
  }
  out_.resize(parts_.vertices.size());
  entrances_.resize(parts_.nodes.size());
  for (std::size_t i = 0; i < parts_.links.size(); ++i) {
    const Link& link = parts_.links[i];
    if (hangs[at_index(link.a)] || hangs[at_index(link.b)]) continue;
    const std::int64_t crossing = crossing_picoseconds(link);
    for (const std::int32_t direction : {0, 1}) {
      const std::int32_t from = direction == 0 ? link.a : link.b, to = direction == 0 ? link.b : link.a;
      const Step step{from,
                      to,
                      Arc{static_cast<std::int32_t>(2 * i) + direction},
                      {at_index(from) < parts_.devices.size(), crossing}};
      if (node_of(from) >= 0 && node_of(to) >= 0 && node_of(from) != node_of(to)) return false;
      (node_of(from) < 0 && node_of(to) >= 0 ? entrances_[at_index(node_of(to))] : out_[at_index(from)])
          .push_back(step);
    }
  }
  return true;
}

// Visits the steps out of a vertex in the network or in `node` to others there.
template <class Visit>
void NodeRoutes::for_each_step(std::int32_t vertex, std::int32_t node, Visit visit) const {
  for (const Step& step : out_[at_index(vertex)]) visit(step);
  if (node < 0 || node_of(vertex) >= 0) return;
  for (const Step& step : entrances_[at_index(node)]) {
    if (step.from == vertex) visit(step);
  }
}

NodeRoutes::Tree NodeRoutes::tree_from(std::int32_t source, std::int32_t node) const {
  const std::size_t size = network_.size() + (node < 0 ? 0 : members_[at_index(node)].size());
  Tree tree{std::vector<RouteCost>(size, unreached), std::vector<Arc>(size)};
  Front front;
  tree.cost[place_in_tree(source)] = {};
  front.emplace(RouteCost{}, source);
  while (!front.empty()) {
    const auto [cost, vertex] = front.top();
    front.pop();
    if (cost != tree.cost[place_in_tree(vertex)]) continue;
    for_each_step(vertex, node, [&, reached = cost](const Step& step) {
      RouteCost& known = tree.cost[place_in_tree(step.to)];
      if (reached + step.cost < known) front.emplace(known = reached + step.cost, step.to);
    });
  }
  // The lowest arc decides between equal ways, whatever the order of the search was.
  const auto choose = [&](std::int32_t vertex) {
    const RouteCost reached = tree.cost[place_in_tree(vertex)];
    for_each_step(vertex, node, [&](const Step& step) {
      Arc& best = tree.arc[place_in_tree(step.to)];
      const bool shortest = step.to != source && reached != unreached &&
                            reached + step.cost == tree.cost[place_in_tree(step.to)];
      if (shortest && (best.value < 0 || step.arc.value < best.value)) best = step.arc;
    });
  };
  for (const std::int32_t vertex : network_) choose(vertex);
  if (node >= 0) {
    for (const std::int32_t vertex : members_[at_index(node)]) choose(vertex);
  }
  return tree;
}

NodeRoutes::Tree NodeRoutes::continued(const Tree& tree, std::int32_t node) const {
  const std::vector<std::int32_t>& members = members_[at_index(node)];
  Tree inside{std::vector<RouteCost>(members.size(), unreached), std::vector<Arc>(members.size())};
  Front front;
  const auto reach = [&](RouteCost cost, const Step& step) {
    RouteCost& known = inside.cost[place(step.to)];
    if (cost + step.cost < known) front.emplace(known = cost + step.cost, step.to);
  };
  for (const Step& step : entrances_[at_index(node)]) reach(tree.cost[place(step.from)], step);
  while (!front.empty()) {
    const auto [cost, vertex] = front.top();
    front.pop();
    if (cost != inside.cost[place(vertex)]) continue;
    for (const Step& step : out_[at_index(vertex)]) {
      if (node_of(step.to) == node) reach(cost, step);
    }
  }
  const auto choose = [&](RouteCost cost, const Step& step) {
    Arc& best = inside.arc[place(step.to)];
    const bool shortest = cost != unreached && cost + step.cost == inside.cost[place(step.to)];
    if (shortest && (best.value < 0 || step.arc.value < best.value)) best = step.arc;
  };
  for (const Step& step : entrances_[at_index(node)]) choose(tree.cost[place(step.from)], step);
  for (const std::int32_t vertex : members) {
    for (const Step& step : out_[at_index(vertex)]) {
      if (node_of(step.to) == node) choose(inside.cost[place(vertex)], step);
    }
  }
  return inside;
}

std::shared_ptr<const NodeRoutes::Tree> NodeRoutes::kept_inside(const Tree& tree, std::int32_t node) const {
  constexpr std::size_t kMost = 16;  // of a node, such as one for each rail
  const std::vector<Step>& entrances = entrances_[at_index(node)];
  const auto enters_alike = [&](const Inside& inside) {
    return std::ranges::equal(entrances, inside.entered,
                              [&](const Step& s, RouteCost c) { return tree.cost[place(s.from)] == c; });
  };
  InsideShard& shard = insides_[at_index(node) % insides_.size()];
  const std::scoped_lock lock(shard.mutex);
  std::deque<Inside>& known = shard.of_node[node];
  if (const auto at = std::ranges::find_if(known, enters_alike); at != known.end()) return at->tree;
  if (known.size() == kMost) known.pop_front();
  Inside& inside = known.emplace_back();
  for (const Step& step : entrances) inside.entered.push_back(tree.cost[place(step.from)]);
  inside.tree = std::make_shared<const Tree>(continued(tree, node));
  return inside.tree;
}

// Whether some way from `from`, in the network, through the node to another vertex of the network is as short
// as any in the network alone.
bool NodeRoutes::passes(std::int32_t node, std::int32_t from, const Tree& network) const {
  Tree start{std::vector<RouteCost>(network_.size(), unreached), {}};
  start.cost[place(from)] = {};
  const Tree inside = continued(start, node);
  return std::ranges::any_of(members_[at_index(node)], [&](std::int32_t vertex) {
    return std::ranges::any_of(out_[at_index(vertex)], [&](const Step& step) {
      if (node_of(step.to) >= 0 || step.to == from || inside.cost[place(vertex)] == unreached) return false;
      return inside.cost[place(vertex)] + step.cost <= network.cost[place(step.to)];
    });
  });
}

bool NodeRoutes::nothing_passes_through() const {
  std::map<std::int32_t, std::vector<std::int32_t>>
      nodes_at;  // a vertex of the network: nodes with others, too
  for (std::size_t n = 0; n < entrances_.size(); ++n) {
    std::vector<std::int32_t> ends;
    for (const Step& step : entrances_[n]) ends.push_back(step.from);
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    if (ends.size() < 2) continue;
    for (const std::int32_t end : ends) nodes_at[end].push_back(static_cast<std::int32_t>(n));
  }
  return std::ranges::none_of(nodes_at, [&](const auto& at) {
    const Tree network = tree_from(at.first, -1);
    return std::ranges::any_of(at.second, [&](std::int32_t node) { return passes(node, at.first, network); });
  });
}

std::vector<Arc> NodeRoutes::way_backwards(std::int32_t from, std::int32_t to) const {
  std::vector<Arc> backwards;
  const auto step_back = [&](Arc arc) {
    backwards.push_back(arc);
    const Link& link = parts_.links[arc.link()];
    to = arc.forward() ? link.a : link.b;
  };
  const std::shared_ptr<const Tree> tree =
      trees_->of(from, [&](std::int32_t source) { return tree_from(source, node_of(source)); });
  if (const std::int32_t node = node_of(to); node >= 0 && node != node_of(from)) {
    const std::shared_ptr<const Tree> inside = kept_inside(*tree, node);
    while (node_of(to) == node) step_back(inside->arc[place(to)]);
  }
  while (to != from) step_back(tree->arc[place_in_tree(to)]);
  return backwards;
}

}  // namespace pipesim
