#include "costmodel/links/rings.h"

#include <algorithm>
#include <numeric>

#include "costmodel/links/cycle_search.h"

namespace pipesim {

namespace {

/// Above this many members a cycle search would not end in time; their rings follow the order of the names.
constexpr std::size_t most_searched = 16;
/// Rings that enter the nodes at different members: as many as a large node has network cards.
constexpr std::size_t most_entries = 16;
constexpr double least_ring_share = 0.05;

std::vector<std::int32_t> local_positions(const Topology& topology, const NodeMembers& members) {
  std::span<const DeviceId> all = topology.devices_of_node(members.node);
  std::vector<std::int32_t> positions;
  for (DeviceId device : members.devices) {
    positions.push_back(static_cast<std::int32_t>(std::find(all.begin(), all.end(), device) - all.begin()));
  }
  return positions;
}

/// Full tours of all nodes, one per entry position and cycle.
std::vector<std::vector<DeviceId>> candidate_orders(NodeRings& node_rings,
                                                    const std::vector<NodeMembers>& nodes) {
  std::size_t largest = 0;
  for (const NodeMembers& members : nodes) largest = std::max(largest, members.devices.size());
  std::vector<std::vector<DeviceId>> orders;
  for (std::size_t entry = 0; entry < std::min(largest, most_entries); ++entry) {
    std::vector<DeviceId> order;
    for (const NodeMembers& members : nodes) {
      std::vector<DeviceId> part = node_rings.order(members, entry, entry % members.devices.size());
      order.insert(order.end(), part.begin(), part.end());
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

void add_ring(Hops& hops, std::span<const DeviceId> order, double amount, LoadTable& load) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    load.add(hops.between(order[i], order[(i + 1) % order.size()]), amount);
  }
}

/// Each ring takes all that the rings before it left.
std::vector<double> greedy_rates(Hops& hops, const std::vector<std::vector<DeviceId>>& orders) {
  FreeBandwidth free(hops);
  LoadTable load;
  std::vector<double> rates;
  double total = 0;
  for (const auto& order : orders) {
    load.clear();
    add_ring(hops, order, 1, load);
    double rate = common_rate(load, free);
    if (rate <= total * least_ring_share) rate = 0;
    take(load, rate, free);
    rates.push_back(rate);
    total += rate;
  }
  return rates;
}

/// All rings at one rate.
std::vector<double> equal_rates(Hops& hops, const std::vector<std::vector<DeviceId>>& orders) {
  LoadTable load;
  for (const auto& order : orders) add_ring(hops, order, 1, load);
  return std::vector<double>(orders.size(), common_rate(load, FreeBandwidth(hops)));
}

double sum(const std::vector<double>& rates) { return std::accumulate(rates.begin(), rates.end(), 0.0); }

std::vector<Ring> shared_out(std::vector<std::vector<DeviceId>> orders, const std::vector<double>& rates) {
  double total = sum(rates);
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (rates[i] > 0) rings.push_back({std::move(orders[i]), rates[i] / total});
  }
  return rings;
}

}  // namespace

std::vector<NodeMembers> members_by_node(const Topology& topology, std::span<const DeviceId> group) {
  std::vector<DeviceId> sorted(group.begin(), group.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](DeviceId a, DeviceId b) { return topology.device(a).node < topology.device(b).node; });
  std::vector<NodeMembers> nodes;
  for (DeviceId device : sorted) {
    std::int32_t node = topology.device(device).node;
    if (nodes.empty() || nodes.back().node != node) nodes.push_back({node, {}});
    nodes.back().devices.push_back(device);
  }
  return nodes;
}

std::vector<NodeRings::Cycle> NodeRings::search(std::span<const DeviceId> members) const {
  std::vector<std::size_t> forward(members.size());
  std::iota(forward.begin(), forward.end(), 0);
  if (members.size() <= 2 || members.size() > most_searched) return {{forward, 1}};
  std::vector<Cycle> cycles;
  double total = 0;
  for (pipesim::Cycle& found : disjoint_cycles(hops_, members)) {
    total += found.rate;
    cycles.push_back({std::move(found.order), found.rate});
  }
  for (Cycle& cycle : cycles) cycle.share /= total;
  return cycles;
}

const std::vector<NodeRings::Cycle>& NodeRings::cycles(const NodeMembers& members) {
  auto [entry, fresh] = known_.try_emplace(local_positions(hops_.topology(), members));
  if (fresh) entry->second = search(members.devices);
  return entry->second;
}

std::vector<Ring> NodeRings::rings(const NodeMembers& members) {
  std::vector<Ring> rings;
  if (members.devices.size() < 2) return rings;
  for (const Cycle& cycle : cycles(members)) {
    Ring& ring = rings.emplace_back();
    ring.share = cycle.share;
    for (std::size_t position : cycle.order) ring.order.push_back(members.devices[position]);
  }
  return rings;
}

std::vector<DeviceId> NodeRings::order(const NodeMembers& members, std::size_t k, std::size_t first) {
  const std::vector<Cycle>& known = cycles(members);
  std::vector<std::size_t> cycle = known[k % known.size()].order;
  std::rotate(cycle.begin(), std::find(cycle.begin(), cycle.end(), first), cycle.end());
  std::vector<DeviceId> order;
  for (std::size_t position : cycle) order.push_back(members.devices[position]);
  return order;
}

std::vector<Ring> find_rings(NodeRings& node_rings, Hops& hops, std::span<const DeviceId> group) {
  std::vector<NodeMembers> nodes = members_by_node(hops.topology(), group);
  if (nodes.size() == 1) return node_rings.rings(nodes.front());
  std::vector<std::vector<DeviceId>> orders = candidate_orders(node_rings, nodes);
  std::vector<double> greedy = greedy_rates(hops, orders), equal = equal_rates(hops, orders);
  return shared_out(std::move(orders), sum(equal) > sum(greedy) ? equal : greedy);
}

}  // namespace pipesim
