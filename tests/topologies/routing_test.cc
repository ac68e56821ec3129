#include "topologies/routing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "sim/base/rng.h"
#include "topologies/device_kinds.h"
#include "topologies/node_routes.h"
#include "topologies/presets/presets.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

// A connected graph of devices and switches in which equal ways, parallel and half-duplex links are common.
Topology random_topology(Rng rng) {
  TopologyDraft draft("random", "");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80"));
  const std::int32_t node = draft.add_node("node0");
  std::vector<DraftVertex> vertices{draft.add_device("gpu0", kind, node)};
  const auto cable = [&] {
    return Cable{BytesPerSecond(1e9 * static_cast<double>(rng.between(1, 3))), Seconds(1e-6),
                 rng.below(4) != 0};
  };
  const std::int64_t count = rng.between(2, 14);
  for (std::int64_t i = 1; i < count; ++i) {
    const DraftVertex vertex = rng.below(2) ? draft.add_device(fmt::format("gpu{}", i), kind, node)
                                            : draft.add_switch(fmt::format("switch{}", i), node);
    draft.connect(vertices[rng.below(vertices.size())], vertex, cable());
    vertices.push_back(vertex);
  }
  for (std::int64_t extra = rng.between(0, count); extra > 0; --extra) {
    const std::size_t a = rng.below(vertices.size()), b = rng.below(vertices.size());
    if (a != b) draft.connect(vertices[a], vertices[b], cable());
  }
  return Topology(std::move(draft).finish());
}

using Costs = std::vector<std::vector<RouteCost>>;

// Floyd and Warshall: least cost between all vertices, with devices in the middle counted apart.
Costs floyd_warshall(const TopologyParts& parts) {
  constexpr RouteCost kFar{1'000'000, 0};
  const std::size_t n = parts.vertices.size();
  Costs cost(n, std::vector<RouteCost>(n, kFar));
  for (std::size_t v = 0; v < n; ++v) cost[v][v] = {};
  for (const Link& link : parts.links) {
    const RouteCost direct{0, crossing_picoseconds(link)};
    for (const auto& [a, b] : {std::pair(link.a, link.b), std::pair(link.b, link.a)})
      cost[index(a)][index(b)] = std::min(cost[index(a)][index(b)], direct);
  }
  for (std::size_t via = 0; via < n; ++via)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        if (via == a || via == b) continue;
        const RouteCost middle{parts.vertices[via].kind == VertexKind::Device, 0};
        cost[a][b] = std::min(cost[a][b], cost[a][via] + middle + cost[via][b]);
      }
  return cost;
}

struct Walk {
  RouteCost cost;
  std::int32_t end = -1;  // −1: the lanes do not join up
};

Walk walk(const Topology& t, std::int32_t from, const Route& route) {
  Walk walk{{}, from};
  for (const LaneId lane : route.lanes) {
    for (const Link& link : t.parts().links) {
      if (lane != link.forward && lane != link.backward) continue;
      const bool middle = walk.end != from && t.parts().vertices[index(walk.end)].kind == VertexKind::Device;
      walk.cost = walk.cost + RouteCost{middle, crossing_picoseconds(link)};
      const bool forward = lane == link.forward && walk.end == link.a;
      const bool backward = lane == link.backward && walk.end == link.b;
      walk.end = forward ? link.b : backward ? link.a : -1;
      if (walk.end < 0) return walk;
    }
  }
  return walk;
}

void expect_shortest(const Topology& t) {
  const Costs best = floyd_warshall(t.parts());
  const auto n = static_cast<std::int32_t>(t.num_devices());
  for (std::int32_t a = 0; a < n; ++a) {
    for (std::int32_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const Walk found = walk(t, a, t.route(DeviceId(a), DeviceId(b)));
      EXPECT_EQ(found.end, b) << a << " to " << b;
      EXPECT_TRUE(found.cost == best[index(a)][index(b)]) << a << " to " << b;
      EXPECT_TRUE(found.cost == best[index(b)][index(a)]) << a << " to " << b << ", the other way";
    }
  }
}

TEST(Routing, AgreesWithFloydWarshallOnRandomTopologies) {
  constexpr std::uint64_t kSeed = 20240611;
  for (std::uint64_t i = 0; i < 500; ++i) {
    SCOPED_TRACE(fmt::format("seed {}, split {}", kSeed, i));
    expect_shortest(random_topology(Rng(kSeed).split(i)));
    if (HasFailure()) return;
  }
}

/// The same as one node: then routes are looked for among all vertices.
TopologyParts joined(TopologyParts parts) {
  parts.nodes = {"all"};
  for (Device& device : parts.devices) device.node = 0;
  for (Vertex& vertex : parts.vertices) vertex.node = 0;
  return parts;
}

void expect_routes_of_joined(const Topology& t) {
  const Topology whole(joined(t.parts()));
  for (std::size_t a = 0; a < t.num_devices(); ++a) {
    for (std::size_t b = 0; b < t.num_devices(); ++b) {
      if (a == b) continue;
      ASSERT_EQ(t.route(DeviceId(a), DeviceId(b)), whole.route(DeviceId(a), DeviceId(b)))
          << t.name() << " " << t.device(DeviceId(a)).name << " to " << t.device(DeviceId(b)).name;
    }
  }
}

TEST(Routing, OfNodesOnANetworkIsThatOfAllVertices) {
  for (const TopologyPreset& preset : topology_presets())
    expect_routes_of_joined(preset_topology(preset, preset.devices_per_node > 16 ? 2 : 3));
  for (const char* name :
       {"dgx-h100:4,network=rail", "dgx-h100:6,network=rail,leaf=2,pod=4,oversubscription=8",
        "dgx1-v100:6,network=fat-tree,leaf=2,pod=4", "dgx1-v100:3,network=rail",
        "levels:3@10GB/s,2@5GB/s,3@1GB/s"})
    expect_routes_of_joined(make_topology(name));
}

// A few nodes of a few vertices, each on one or several switches of a network that may be in pieces: then the
// way between these leads through a node.
Topology random_nodes(Rng rng) {
  TopologyDraft draft("random nodes", "");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80"));
  const auto cable = [&] {
    return Cable{BytesPerSecond(1e9 * static_cast<double>(rng.between(1, 3))), Seconds(1e-6),
                 rng.below(4) != 0};
  };
  std::vector<DraftVertex> network;
  const std::int64_t switches = rng.between(1, 4), nodes = rng.between(2, 4);
  for (std::int64_t i = 0; i < switches; ++i) {
    network.push_back(draft.add_switch(fmt::format("switch{}", i)));
    if (i > 0 && rng.below(3) != 0)
      draft.connect(network[rng.below(index(static_cast<std::int32_t>(i)))], network.back(), cable());
  }
  for (std::int64_t n = 0; n < nodes; ++n) {
    const std::int32_t node = draft.add_node(fmt::format("node{}", n));
    std::vector<DraftVertex> own;
    for (std::int64_t i = rng.between(1, 4); i > 0; --i) {
      own.push_back(rng.below(2) || own.empty()
                        ? draft.add_device(fmt::format("node{}.gpu{}", n, i), kind, node)
                        : draft.add_switch(fmt::format("node{}.bus{}", n, i), node));
      if (own.size() > 1) draft.connect(own[rng.below(own.size() - 1)], own.back(), cable());
    }
    if (own.size() > 2 && rng.below(2)) draft.connect(own.front(), own.back(), cable());
    // The first node reaches all switches, so that everything is joined.
    for (std::size_t s = 0; s < network.size(); ++s) {
      if (n == 0 || s == 0 || rng.below(3) == 0)
        draft.connect(own[rng.below(own.size())], network[s], cable());
    }
  }
  return Topology(std::move(draft).finish());
}

TEST(Routing, OfRandomNodesIsThatOfAllVertices) {
  constexpr std::uint64_t kSeed = 20241123;
  int by_nodes = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    SCOPED_TRACE(fmt::format("seed {}, split {}", kSeed, i));
    const Topology t = random_nodes(Rng(kSeed).split(i));
    const std::vector<bool> none(t.parts().vertices.size());
    by_nodes += NodeRoutes::find(t.parts(), none, 1 << 20) != nullptr ? 1 : 0;
    expect_routes_of_joined(t);
    expect_shortest(t);
    if (HasFailure()) return;
  }
  EXPECT_GT(by_nodes, 100);
  EXPECT_LT(by_nodes, 900);
  RecordProperty("by nodes", by_nodes);
}

// So that they need two nodes and the network each, and not a tree over all (BM_FirstRouteOf10000).
TEST(Routing, OfTenThousandDevicesOnANetworkAreFoundByNodes) {
  for (const char* name : {"dgx-h100:1250", "dgx-h100:1250,network=fat-tree"}) {
    const Topology t = make_topology(name);
    const std::vector<bool> none(t.parts().vertices.size());
    EXPECT_NE(NodeRoutes::find(t.parts(), none, 1 << 20), nullptr) << name;
    std::size_t lanes = 0;
    for (std::int32_t i = 0; i < 1000; ++i)
      lanes += t.route(DeviceId(10 * i), DeviceId((10 * i + 5000) % 10'000)).lanes.size();
    EXPECT_GE(lanes, 4000U) << name;
  }
}

TEST(Routing, TiesGoToTheLowestLaneWhateverTheOrderOfQuestions) {
  TopologyDraft draft("diamond", "");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80"));
  const std::int32_t node = draft.add_node("node0");
  const DraftVertex a = draft.add_device("gpu0", kind, node), b = draft.add_device("gpu1", kind, node);
  const Cable cable{BytesPerSecond(1e9), Seconds(0), true};
  for (const char* name : {"left", "middle", "right"}) {
    const DraftVertex way = draft.add_switch(name, node);
    draft.connect(way, b, cable);
    draft.connect(a, way, cable);
  }
  const TopologyParts parts = std::move(draft).finish();
  const Topology t(parts), u(parts);
  const Route there = t.route(DeviceId(0), DeviceId(1)), back = t.route(DeviceId(1), DeviceId(0));
  EXPECT_EQ(t.lane_name(there.lanes[0]), "gpu0 -> left");
  EXPECT_EQ(t.lane_name(back.lanes[1]), "left -> gpu0");
  EXPECT_EQ(u.route(DeviceId(1), DeviceId(0)), back);
  EXPECT_EQ(u.route(DeviceId(0), DeviceId(1)), there);
}

TEST(Routing, ADeviceForwardsOnlyWhenThereIsNoOtherWay) {
  TopologyDraft draft("chain", "");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80"));
  const std::int32_t node = draft.add_node("node0");
  std::vector<DraftVertex> gpus;
  for (int i = 0; i < 3; ++i) gpus.push_back(draft.add_device(fmt::format("gpu{}", i), kind, node));
  const Cable fast{BytesPerSecond(100e9), Seconds(0), true}, slow{BytesPerSecond(1e9), Seconds(1e-3), true};
  draft.connect(gpus[0], gpus[1], fast);
  draft.connect(gpus[1], gpus[2], fast);
  TopologyDraft with_switch = draft;
  EXPECT_EQ(Topology(std::move(draft).finish()).route(DeviceId(0), DeviceId(2)).bandwidth, fast.bandwidth);
  const DraftVertex pcie = with_switch.add_switch("pcie", node);
  for (const DraftVertex gpu : gpus) with_switch.connect(gpu, pcie, slow);
  EXPECT_EQ(Topology(std::move(with_switch).finish()).route(DeviceId(0), DeviceId(2)).bandwidth,
            slow.bandwidth);
}

TEST(Routing, ManyThreadsGetEqualRoutes) {
  const Topology fresh = make_topology("dgx1-v100:3"), known = make_topology("dgx1-v100:3");
  const auto n = static_cast<std::int32_t>(fresh.num_devices());
  std::vector<std::vector<Route>> routes(6);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < routes.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int32_t i = 0; i < n * n; ++i) {
        const std::int32_t a = i / n,
                           b = (i + static_cast<std::int32_t>(t)) % n;  // each thread in an order of its own
        routes[t].push_back(a == b ? Route{} : fresh.route(DeviceId(a), DeviceId(b)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < routes.size(); ++t) {
    for (std::int32_t i = 0; i < n * n; ++i) {
      const std::int32_t a = i / n, b = (i + static_cast<std::int32_t>(t)) % n;
      ASSERT_EQ(routes[t][index(i)], a == b ? Route{} : known.route(DeviceId(a), DeviceId(b)));
    }
  }
}

TEST(Routing, ForgottenTreesAreFoundAgain) {
  const Topology t = make_topology("dgx-a100:20");  // 160 sources, of which 64 trees are kept
  const Router roomy(t.parts()), tight(t.parts(), 1);
  for (int round = 0; round < 2; ++round) {
    for (std::int32_t a = 0; a < 160; ++a) {
      const std::int32_t b = (a + 77) % 160;
      const std::vector<Arc> expected = roomy.way(a, b), found = tight.way(a, b);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].value, expected[i].value);
    }
  }
}

TEST(Routing, TenThousandDevices) {
  const Topology t = make_topology("levels:8@100GB/s,50@25GB/s,25@10GB/s");
  ASSERT_EQ(t.num_devices(), 10'000u);
  ASSERT_EQ(t.num_nodes(), 1250u);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(7)).bandwidth, BytesPerSecond(100e9));
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(399)).bandwidth, BytesPerSecond(25e9));
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(9999)).lanes.size(), 6u);
  for (std::int32_t i = 0; i < 10'000; ++i)
    EXPECT_EQ(t.route(DeviceId(i), DeviceId((i + 5000) % 10'000)).bandwidth, BytesPerSecond(10e9));
}

TEST(Routing, OfAllPairsOfSixtyFourDevicesHaveTheirLanes) {
  const Topology t = make_topology("dgx-a100:8");
  std::size_t lanes = 0;
  for (std::int32_t a = 0; a < 64; ++a)
    for (std::int32_t b = 0; b < 64; ++b)
      if (a != b) lanes += t.route(DeviceId(a), DeviceId(b)).lanes.size();
  EXPECT_EQ(lanes, 64u * 7 * 2 + 64u * 56 * 4);
}

}  // namespace
}  // namespace pipesim
