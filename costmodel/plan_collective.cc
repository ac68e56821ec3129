#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "costmodel/calibrated_times.h"
#include "costmodel/cost_model.h"
#include "costmodel/links/cycle_search.h"
#include "costmodel/links/hops.h"
#include "costmodel/links/nccl.h"
#include "costmodel/links/protocols.h"
#include "costmodel/links/rings.h"
#include "costmodel/links/trees.h"
#include "costmodel/runtime/dispatcher.h"
#include "sim/base/errors.h"

namespace pipesim {

namespace {

/// Pairs whose routes an all-to-all adds up exactly; larger groups take a sample of shifts.
constexpr std::size_t most_pairs = 65'536;

}  // namespace

/// Builds the algorithms of one group. Amounts are bytes per byte of the collective's size.
class CollectivePlanner::Group {
 public:
  Group(const Topology& topology, const LinkBundles& bundles, std::vector<DeviceId> ascending)
      : hops_(topology, bundles),
        node_rings_(hops_),
        root_(ascending.front()),
        group_(std::move(ascending)),
        nodes_(members_by_node(topology, group_)) {}

  [[nodiscard]] const std::vector<DeviceId>& members() const { return group_; }
  [[nodiscard]] std::int64_t num_nodes() const { return std::ssize(nodes_); }

  std::vector<CollectiveAlgorithm> algorithms(Collective kind, DeviceId root) {
    root_ = root;
    std::vector<CollectiveAlgorithm> found;
    const std::optional<CollectiveTraits> traits = traits_in_node();
    if (kind == Collective::AllToAll) {
      found.push_back(all_to_all(traits));
      return found;
    }
    if (traits && !rooted(kind)) return protocols(kind, *traits);
    found.push_back(rooted(kind) ? chain(kind) : ring(kind));
    if (nodes_.size() < 2) return found;
    if (rooted(kind) || kind == Collective::AllReduce) found.push_back(tree(kind));
    if (!rooted(kind) && equal_nodes()) found.push_back(hierarchical(kind));
    return found;
  }

  /// An all-to-all in which a row for several devices of a node crosses to it once, to the device of equal
  /// position, which hands it on; or the way back, with sums in place of copies. `once`: rows that cross, in
  /// shares of those that arrive. Nothing where the group is on one node or on unequal ones.
  std::optional<CollectiveAlgorithm> all_to_all_by_nodes(double once) {
    if (nodes_.size() < 2 || !equal_nodes()) return std::nullopt;
    return by_nodes(once, 1);
  }

  /// The same by a dispatcher that hands a token on to each device once: `once_a_device`, rows that are
  /// handed on, in shares of all. Also inside one node. Nothing on unequal nodes.
  std::optional<CollectiveAlgorithm> dispatch(double once, double once_a_device, const Runtime& runtime) {
    if (!equal_nodes()) return std::nullopt;
    CollectiveAlgorithm made = by_nodes(once, once_a_device);
    made.name = "dispatcher";
    const double copied =
        dispatcher_work(runtime, hops_.topology().kind(group_.front()).name, nodes_.size() > 1).copied.value;
    if (copied <= 0) return made;
    const double own = once_a_device / static_cast<double>(group_.size()) / copied;
    Phase& phase = made.phases.front();
    if (own > phase.seconds_per_byte)
      phase.carried = phase.seconds_per_byte / own, phase.seconds_per_byte = own;
    return made;
  }

 private:
  CollectiveAlgorithm by_nodes(double once, double once_a_device) {
    const auto n = static_cast<double>(group_.size()), nodes = static_cast<double>(nodes_.size());
    const std::size_t members = nodes_.front().devices.size();
    const std::size_t shifts =
        nodes_.size() < 2 ? 0
                          : std::min(nodes_.size() - 1, std::max<std::size_t>(1, most_pairs / group_.size()));
    LoadTable load = empty_load();
    double between = 0, inside = 0;  // latencies
    const double crossing =
        once * part(nodes_.size()) / n / static_cast<double>(std::max<std::size_t>(1, shifts));
    for (std::size_t s = 0; s < shifts; ++s) {
      const std::size_t shift = 1 + (2 * s + 1) * (nodes_.size() - 1) / (2 * shifts);
      for (std::size_t a = 0; a < nodes_.size(); ++a) {
        const NodeMembers &from = nodes_[a], &to = nodes_[(a + shift) % nodes_.size()];
        for (std::size_t k = 0; k < members; ++k)
          between = std::max(between, add_hop(from.devices[k], to.devices[k], crossing, load));
      }
    }
    // To each device of its node a device hands on what has come for it from one device of every node.
    for (const NodeMembers& node : nodes_) {
      for (const DeviceId from : node.devices) {
        for (const DeviceId to : node.devices) {
          if (from != to) inside = std::max(inside, add_hop(from, to, once_a_device * nodes / (n * n), load));
        }
      }
    }
    const double peers = nccl::peer_overhead * static_cast<double>(nodes_.size() - 1 + members - 1);
    CollectiveAlgorithm result{"by nodes", Seconds(nccl::call_overhead + between + inside + peers), {}, {}};
    crosses_nodes_ = nodes_.size() > 1;
    add_phase(result, load);
    return result;
  }

 public:
  CollectiveAlgorithm broadcast_gather() {
    const std::vector<Ring>& rings = rings_of_group();
    LoadTable load = empty_load();
    add_rings(rings, 1, load);
    double overhead = 0, fill = 0;  // K, and F by byte: all round the rings, which is one hop too many
    for (const Ring& ring : rings) {
      for (std::size_t i = 0; i < ring.order.size(); ++i) {
        const Hop& hop = hops_.between(ring.order[i], ring.order[(i + 1) % ring.order.size()]);
        double slowest = 0;
        for (const LaneShare& way : hop.lanes)
          slowest = std::max(slowest, load.of(way.lane) / hops_.bandwidths()[way.lane.number]);
        overhead += ring.share * chunk_overhead(hop.crosses_nodes);
        fill += ring.share * slowest;
      }
    }
    CollectiveAlgorithm result{
        "broadcast", Seconds(nccl::call_overhead + part(group_.size()) * overhead), {}, {}};
    add_phase(result, load);
    Phase& phase = result.phases.front();
    phase.chunk_overhead *= part(group_.size()) * fill / phase.seconds_per_byte;
    return result;
  }

 private:
  static double chunk_overhead(bool crosses_nodes) {
    return crosses_nodes ? nccl::network_chunk_overhead : nccl::chunk_overhead;
  }

  static bool rooted(Collective kind) { return kind == Collective::Broadcast || kind == Collective::Reduce; }

  /// What NCCL's calls inside a node need; nothing for other groups, and where a member's kind has no
  /// figures.
  [[nodiscard]] std::optional<CollectiveTraits> traits_in_node() const {
    if (nodes_.size() != 1) return std::nullopt;
    CollectiveTraits together{Seconds(0), true};
    for (DeviceId device : group_) {
      const std::optional<CollectiveTraits>& traits = hops_.topology().kind(device).collectives;
      if (!traits) return std::nullopt;
      together.call = std::max(together.call, traits->call);
      together.in_switch = together.in_switch && traits->in_switch;
    }
    return together;
  }

  /// Bytes per second, of the member with the slowest memory.
  [[nodiscard]] double memory_bandwidth() const {
    double least = hops_.topology().kind(group_.front()).memory_bandwidth.value;
    for (DeviceId device : group_)
      least = std::min(least, hops_.topology().kind(device).memory_bandwidth.value);
    return least;
  }

  [[nodiscard]] bool equal_nodes() const {
    std::size_t members = nodes_.front().devices.size();
    auto same = [members](const NodeMembers& node) { return node.devices.size() == members; };
    return members > 1 && std::all_of(nodes_.begin(), nodes_.end(), same);
  }

  /// How often the buffer goes round: an all-reduce is a reduce-scatter and an all-gather.
  static double rounds(Collective kind) { return kind == Collective::AllReduce ? 2 : 1; }

  void add_phase(CollectiveAlgorithm& algorithm, const LoadTable& load) const {
    auto phase = static_cast<std::int32_t>(algorithm.phases.size());
    Phase& added = algorithm.phases.emplace_back();
    added.chunk_overhead = chunk_overhead(crosses_nodes_);
    for (MetLane lane : load.lanes()) {
      double seconds = load.of(lane) / hops_.bandwidths()[lane.number];
      algorithm.loads.push_back({lane.lane, phase, seconds});
      added.seconds_per_byte = std::max(added.seconds_per_byte, seconds);
    }
    std::sort(algorithm.loads.begin(), algorithm.loads.end(), [](const LaneLoad& a, const LaneLoad& b) {
      return std::pair(a.lane, a.phase) < std::pair(b.lane, b.phase);
    });
  }

  /// Adds the hop and remembers whether the phase leaves a node.
  double add_hop(DeviceId from, DeviceId to, double amount, LoadTable& load) {
    const Hop& hop = hops_.between(from, to);
    load.add(hop, amount);
    crosses_nodes_ = crosses_nodes_ || hop.crosses_nodes;
    return hop.latency;
  }

  LoadTable empty_load() {
    crosses_nodes_ = false;
    return {};
  }

  /// Loads the rings with `amount` in all on every hop; returns the time once round, mean over the
  /// rings.
  double add_rings(const std::vector<Ring>& rings, double amount, LoadTable& load) {
    double latency = 0;
    for (const Ring& ring : rings) {
      for (std::size_t i = 0; i < ring.order.size(); ++i) {
        DeviceId next = ring.order[(i + 1) % ring.order.size()];
        latency += ring.share * add_hop(ring.order[i], next, amount * ring.share, load);
      }
    }
    return latency;
  }

  // Found once.
  const std::vector<Ring>& rings_of_group() {
    if (rings_.empty()) rings_ = find_rings(node_rings_, hops_, group_);
    return rings_;
  }

  static double part(std::size_t n) { return static_cast<double>(n - 1) / static_cast<double>(n); }

  CollectiveAlgorithm ring(Collective kind) {
    LoadTable load = empty_load();
    double share = rounds(kind) * part(group_.size());
    double once_round = add_rings(rings_of_group(), share, load);
    CollectiveAlgorithm result{"ring", Seconds(nccl::call_overhead + share * once_round), {}, {}};
    add_phase(result, load);
    return result;
  }

  /// Whether every hop of these rings goes up one link and down another.
  bool all_through_a_switch(const std::vector<Ring>& rings) {
    for (const Ring& ring : rings) {
      for (std::size_t i = 0; i < ring.order.size(); ++i) {
        const DeviceId to = ring.order[(i + 1) % ring.order.size()];
        if (hops_.between(ring.order[i], to).lanes.size() != 2) return false;
      }
    }
    return true;
  }

  /// The rings inside a node, once for each protocol.
  std::vector<CollectiveAlgorithm> protocols(Collective kind, const CollectiveTraits& traits) {
    const std::vector<Ring>& rings = rings_of_group();
    const auto n = static_cast<double>(group_.size());
    const double share = rounds(kind) * part(group_.size());
    LoadTable load = empty_load();
    nccl::RingCall call;
    call.all_reduce = kind == Collective::AllReduce, call.devices = group_.size(),
    call.memory = memory_bandwidth(), call.traits = traits;
    call.traits.in_switch = traits.in_switch && all_through_a_switch(rings);
    call.step_latency = add_rings(rings, share, load) / n;
    CollectiveAlgorithm on_rings{"ring", Seconds(0), {}, {}};
    add_phase(on_rings, load);
    call.bandwidth = share / on_rings.phases[0].seconds_per_byte;
    std::vector<CollectiveAlgorithm> found;
    for (const nccl::ProtocolTime& time : nccl::protocols_of(call)) {
      CollectiveAlgorithm& made = found.emplace_back(on_rings);
      made.name = time.name;
      made.latency = Seconds(time.latency);
      made.least = time.least, made.most = time.most;
      // Through the switch a device sends all that it has and the sum of its part, and receives as much.
      const double carried = time.in_switch ? (1 + 1 / n) / share : 1;
      for (LaneLoad& lane : made.loads) lane.seconds_per_byte *= carried;
      made.phases[0] = {time.seconds_per_byte, time.chunk_overhead,
                        on_rings.phases[0].seconds_per_byte * carried / time.seconds_per_byte};
    }
    return found;
  }

  /// Broadcast along the rings, all hops but the one back into the root; reduce the same backwards.
  CollectiveAlgorithm chain(Collective kind) {
    LoadTable load = empty_load();
    double latency = 0;
    for (Ring ring : rings_of_group()) {
      std::rotate(ring.order.begin(), std::find(ring.order.begin(), ring.order.end(), root_),
                  ring.order.end());
      if (kind == Collective::Reduce)
        std::rotate(ring.order.begin(), ring.order.begin() + 1, ring.order.end());
      for (std::size_t i = 1; i < ring.order.size(); ++i) {
        latency += ring.share * add_hop(ring.order[i - 1], ring.order[i], ring.share, load);
      }
    }
    CollectiveAlgorithm result{"ring", Seconds(nccl::call_overhead + latency), {}, {}};
    add_phase(result, load);
    return result;
  }

  CollectiveAlgorithm tree(Collective kind) {
    LoadTable load = empty_load();
    std::vector<Tree> trees = double_trees(node_rings_, nodes_, rooted(kind) ? root_ : DeviceId());
    double share = 1 / static_cast<double>(trees.size()), latency = 0;
    for (const Tree& tree : trees) {
      double in_nodes = 0, between = 0;
      for (auto [parent, child] : tree.edges) {
        double seconds = 0;
        if (kind != Collective::Reduce) seconds = add_hop(parent, child, share, load);
        if (kind != Collective::Broadcast) seconds = add_hop(child, parent, share, load);
        double& slowest = hops_.between(parent, child).crosses_nodes ? between : in_nodes;
        slowest = std::max(slowest, seconds);
      }
      double down = in_nodes * static_cast<double>(tree.depth_in_nodes) +
                    between * static_cast<double>(tree.depth_between_nodes);
      latency = std::max(latency, rounds(kind) * down);
    }
    CollectiveAlgorithm result{"tree", Seconds(nccl::call_overhead + latency), {}, {}};
    add_phase(result, load);
    return result;
  }

  /// Inside all nodes at once, `amount` on every hop of each node's rings.
  void add_inner_phase(CollectiveAlgorithm& result, double amount) {
    LoadTable load = empty_load();
    double latency = 0;
    for (const NodeMembers& node : nodes_)
      latency = std::max(latency, add_rings(node_rings_.rings(node), amount, load));
    result.latency += Seconds(nccl::call_overhead + part(nodes_.front().devices.size()) * latency);
    add_phase(result, load);
  }

  /// Between the nodes, the members of equal position at once.
  void add_outer_phase(CollectiveAlgorithm& result, Collective kind) {
    LoadTable load = empty_load();
    std::size_t members = nodes_.front().devices.size();
    double share = rounds(kind) * part(nodes_.size()), latency = 0;
    for (std::size_t k = 0; k < members; ++k) {
      std::vector<DeviceId> across;
      for (const NodeMembers& node : nodes_) across.push_back(node.devices[k]);
      auto rings = find_rings(node_rings_, hops_, across);
      latency = std::max(latency, add_rings(rings, share / static_cast<double>(members), load));
    }
    result.latency += Seconds(nccl::call_overhead + share * latency);
    add_phase(result, load);
  }

  CollectiveAlgorithm hierarchical(Collective kind) {
    CollectiveAlgorithm result{"hierarchical", Seconds(0), {}, {}};
    double inner = part(nodes_.front().devices.size());
    if (kind != Collective::AllGather) add_inner_phase(result, inner);
    add_outer_phase(result, kind);
    if (kind != Collective::ReduceScatter) add_inner_phase(result, inner);
    return result;
  }

  /// Shift d: every member sends to the d-th after it. All shifts, or as many as can be afforded, evenly
  /// spread.
  CollectiveAlgorithm all_to_all(const std::optional<CollectiveTraits>& traits) {
    LoadTable load = empty_load();
    std::size_t n = group_.size(), shifts = std::min(n - 1, std::max<std::size_t>(1, most_pairs / n));
    double amount = part(n) / static_cast<double>(n) / static_cast<double>(shifts), latency = 0;
    for (std::size_t s = 0; s < shifts; ++s) {
      std::size_t shift = 1 + (2 * s + 1) * (n - 1) / (2 * shifts);
      for (std::size_t i = 0; i < n; ++i) {
        latency = std::max(latency, add_hop(group_[i], group_[(i + shift) % n], amount, load));
      }
    }
    double peers = nccl::peer_overhead * static_cast<double>(n - 1);
    const double call = traits ? nccl::direct_calls * traits->call.value : nccl::call_overhead;
    CollectiveAlgorithm result{"direct", Seconds(call + latency + peers), {}, {}};
    add_phase(result, load);
    if (traits) {
      // The bytes are those of all n devices: each device keeps the n-th part of its n-th part.
      const auto parts = static_cast<double>(n * n);
      const double own = 1 / (parts * nccl::own_part_share * memory_bandwidth());
      Phase& phase = result.phases.front();
      const double on_links = phase.seconds_per_byte;
      phase = {on_links + own, nccl::direct_chunk_calls * traits->call.value, on_links / (on_links + own)};
    }
    return result;
  }

  Hops hops_;
  NodeRings node_rings_;
  DeviceId root_;
  std::vector<DeviceId> group_;
  std::vector<NodeMembers> nodes_;
  std::vector<Ring> rings_;
  bool crosses_nodes_ = false;
};

namespace {

/// One message over its route: nothing to overlap chunks with, so no chunk overhead.
CollectiveAlgorithm send(const Topology& topology, const LinkBundles& bundles, DeviceId from, DeviceId to) {
  // Without Hops: there are more sends than anything else, and each looks up a single hop.
  const Route route = topology.route(from, to);
  CollectiveAlgorithm result{"route", Seconds(nccl::call_overhead + route.latency.value), {Phase{}}, {}};
  for (LaneId lane : route.lanes) {
    std::span<const LaneId> parallel = bundles.parallel_to(lane);
    double total = total_bandwidth(topology, parallel);
    for (LaneId one : parallel) {
      double bandwidth = topology.lane_bandwidth(one).value, seconds = bandwidth / total / bandwidth;
      result.loads.push_back({one, 0, seconds});
      result.phases[0].seconds_per_byte = std::max(result.phases[0].seconds_per_byte, seconds);
    }
  }
  std::sort(result.loads.begin(), result.loads.end(),
            [](const LaneLoad& a, const LaneLoad& b) { return a.lane < b.lane; });
  return result;
}

void check_group(const Topology& topology, Collective kind, std::span<const DeviceId> group) {
  std::vector<DeviceId> sorted(group.begin(), group.end());
  std::sort(sorted.begin(), sorted.end());
  bool known = !sorted.empty() && sorted.front().valid() && sorted.back().index() < topology.num_devices();
  bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  bool enough = kind == Collective::Send ? group.size() == 2 : group.size() >= 2;
  if (!known || !distinct || !enough) {
    throw InternalError(std::string(name_of(kind)) + " over a group that is not of " +
                        (kind == Collective::Send ? "exactly" : "at least") + " 2 distinct devices");
  }
}

}  // namespace

CollectivePlan CostModel::plan_of(std::vector<CollectiveAlgorithm> algorithms,
                                  std::span<const DeviceId> group) const {
  std::vector<LaneId> compute_lanes;
  for (DeviceId device : group) {
    if (!topology_.kind(device).overlap) compute_lanes.push_back(topology_.compute_lane(device));
  }
  for (CollectiveAlgorithm& algorithm : algorithms) {
    algorithm.latency = algorithm.latency * latency_factor_;
    for (Phase& phase : algorithm.phases) phase.chunk_overhead = phase.chunk_overhead * latency_factor_;
  }
  return {std::move(algorithms), std::move(compute_lanes)};
}

CollectivePlanner::CollectivePlanner(const CostModel& costs) : costs_(costs) {}
CollectivePlanner::~CollectivePlanner() = default;
CollectivePlanner::CollectivePlanner(CollectivePlanner&&) noexcept = default;

CollectivePlanner::Group& CollectivePlanner::group_of(std::span<const DeviceId> members) {
  std::vector<DeviceId> ascending(members.begin(), members.end());
  std::sort(ascending.begin(), ascending.end());
  if (!last_ || last_->members() != ascending)
    last_ = std::make_unique<Group>(costs_.topology_, *costs_.bundles_, std::move(ascending));
  return *last_;
}

CollectivePlan CollectivePlanner::plan_broadcast_gather(std::span<const DeviceId> group) {
  check_group(costs_.topology(), Collective::AllGather, group);
  return costs_.plan_of({group_of(group).broadcast_gather()}, group);
}

CollectivePlan CollectivePlanner::plan_token_exchange(std::span<const DeviceId> group,
                                                      const NodeRoute& route) {
  check_group(costs_.topology(), Collective::AllToAll, group);
  const std::int64_t nodes = group_of(group).num_nodes();
  const double once = route.nodes_of_a_token(nodes) / static_cast<double>(route.chosen);
  const Runtime& runtime = costs_.runtime();
  const bool named = runtime.dispatcher == Dispatcher::DeepEp || runtime.dispatcher == Dispatcher::HybridEp;
  const auto devices = static_cast<std::int64_t>(group.size());
  const double once_a_device =
      route.devices_of_a_token(nodes, devices / nodes) / static_cast<double>(route.chosen);
  std::optional<CollectiveAlgorithm> by_nodes = named ? group_of(group).dispatch(once, once_a_device, runtime)
                                                      : group_of(group).all_to_all_by_nodes(once);
  if (!by_nodes) return plan(Collective::AllToAll, group);
  return costs_.plan_of({std::move(*by_nodes)}, group);
}

CollectivePlan CollectivePlanner::plan(Collective kind, std::span<const DeviceId> group) {
  check_group(costs_.topology(), kind, group);
  std::vector<CollectiveAlgorithm> algorithms;
  if (kind == Collective::Send) {
    algorithms.push_back(send(costs_.topology(), *costs_.bundles_, group[0], group[1]));
  } else {
    algorithms = group_of(group).algorithms(kind, group.front());
  }
  CollectivePlan plan = costs_.plan_of(std::move(algorithms), group);
  if (const CalibratedTimes* times = costs_.times_.get())
    plan.calibrate(times->transfer_ratios(kind, group, plan), times->correction(correction_class(kind)));
  return plan;
}

CollectivePlan CostModel::plan_broadcast_gather(std::span<const DeviceId> group) const {
  return CollectivePlanner(*this).plan_broadcast_gather(group);
}

CollectivePlan CostModel::plan_token_exchange(std::span<const DeviceId> group, const NodeRoute& route) const {
  return CollectivePlanner(*this).plan_token_exchange(group, route);
}

CollectivePlan CostModel::plan_collective(Collective kind, std::span<const DeviceId> group) const {
  return CollectivePlanner(*this).plan(kind, group);
}

CollectiveTime CostModel::collective_time(Collective kind, std::span<const DeviceId> group,
                                          Bytes size) const {
  return plan_collective(kind, group).at(size);
}

}  // namespace pipesim
