#include "topologies/presets/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::string refused_network(std::string_view text) {
  return refusal([&] { (void)make_topology(text); });
}

/// The vertices on the way, without its ends: "nic0 rail0 nic0" of "node0.nic0", "rail0", "node1.nic0".
std::vector<std::string> way(const Topology& t, std::string_view from, std::string_view to) {
  std::vector<std::string> vertices;
  const Route route = t.route(t.device_named(from), t.device_named(to));
  for (std::size_t i = 1; i < route.lanes.size(); ++i) {
    const std::string lane = t.lane_name(route.lanes[i]);
    vertices.push_back(lane.substr(0, lane.find(" -> ")));
  }
  return vertices;
}

using Way = std::vector<std::string>;

TEST(RailNetwork, ConnectsEqualGpusByTheirLeafAndOthersBySpines) {
  const Topology t = make_topology("dgx-h100:4,network=rail");
  EXPECT_EQ(way(t, "node0.gpu3", "node2.gpu3"), (Way{"node0.nic3", "rail3", "node2.nic3"}));
  EXPECT_EQ(way(t, "node0.gpu3", "node2.gpu4"), (Way{"node0.nic3", "rail3", "spine", "rail4", "node2.nic4"}));
  EXPECT_EQ(way(t, "node0.gpu3", "node0.gpu4"), (Way{"node0.nvswitch"}));
  const Route route = t.route(t.device_named("node0.gpu3"), t.device_named("node2.gpu4"));
  EXPECT_DOUBLE_EQ(route.bandwidth.value, 48e9);
  EXPECT_DOUBLE_EQ(route.latency.value, (2 * (0.5 + 1.35) + 2 * 0.3) * 1e-6);
}

TEST(RailNetwork, HasLeavesForEveryGroupOfNodes) {
  const Topology t = make_topology("dgx-h100:5,network=rail,leaf=2,pod=4");
  EXPECT_EQ(way(t, "node0.gpu0", "node1.gpu0"), (Way{"node0.nic0", "group0.rail0", "node1.nic0"}));
  EXPECT_EQ(way(t, "node0.gpu0", "node2.gpu0"),
            (Way{"node0.nic0", "group0.rail0", "pod0.spine", "group1.rail0", "node2.nic0"}));
  EXPECT_EQ(way(t, "node0.gpu0", "node4.gpu7"), (Way{"node0.nic0", "group0.rail0", "pod0.spine", "core",
                                                     "pod1.spine", "group2.rail7", "node4.nic7"}));
}

// A rack's trays have four GPUs each: GPU 5 is the second tray's second.
TEST(RailNetwork, OfRacksHasARailForEachGpuOfATray) {
  const Topology t = make_topology("gb200-nvl72:2,network=rail,leaf=2");
  EXPECT_EQ(way(t, "node0.gpu5", "node1.gpu69"), (Way{"node0.nic5", "rail1", "node1.nic69"}));
  EXPECT_EQ(way(t, "node0.gpu5", "node1.gpu6").size(), 5U);
}

TEST(FatTree, ConnectsNodesByLeafSpineAndCore) {
  const Topology t = make_topology("dgx-h100:8,network=fat-tree,leaf=2,pod=4");
  EXPECT_EQ(way(t, "node0.gpu0", "node1.gpu7"), (Way{"node0.nic0", "leaf0", "node1.nic7"}));
  EXPECT_EQ(way(t, "node0.gpu0", "node3.gpu7"),
            (Way{"node0.nic0", "leaf0", "pod0.spine", "leaf1", "node3.nic7"}));
  EXPECT_EQ(way(t, "node0.gpu0", "node7.gpu0"),
            (Way{"node0.nic0", "leaf0", "pod0.spine", "core", "pod1.spine", "leaf3", "node7.nic0"}));
}

TEST(FatTree, OfOneLeafIsOneSwitch) {
  const Topology t = make_topology("dgx-h100:4,network=fat-tree");
  EXPECT_EQ(way(t, "node0.gpu0", "node3.gpu0"), (Way{"node0.nic0", "leaf0", "node3.nic0"}));
  EXPECT_EQ(t.parts().vertices.size(), 4 * (8 + 8 + 1) + 1U);
}

/// GB/s that each GPU sends when GPU g of all nodes sends to GPU g + `rails` of the node that is `nodes`
/// nodes further on, all at the same time.
double rate_of_shift(const Topology& t, std::size_t nodes, std::size_t rails = 0) {
  std::map<LaneId, double> messages;
  const std::size_t gpus = t.devices_of_node(0).size();
  for (std::size_t node = 0; node < t.num_nodes(); ++node) {
    for (std::size_t g = 0; g < gpus; ++g) {
      const std::size_t to = (node + nodes) % t.num_nodes() * gpus + (g + rails) % gpus;
      for (const LaneId lane : t.route(DeviceId(node * gpus + g), DeviceId(to)).lanes) messages[lane] += 1;
    }
  }
  double rate = std::numeric_limits<double>::infinity();
  for (const auto& [lane, count] : messages) rate = std::min(rate, t.lane_bandwidth(lane).value / count);
  return rate / 1e9;
}

TEST(FatTree, HasTheBisectionOfItsOversubscription) {
  const auto bisection = [](const std::string& options) {
    return rate_of_shift(make_topology("dgx-h100:8,network=fat-tree,leaf=2,pod=4" + options), 4);
  };
  EXPECT_DOUBLE_EQ(bisection(""), 48);
  EXPECT_DOUBLE_EQ(bisection(",oversubscription=2"), 24);
  EXPECT_DOUBLE_EQ(bisection(",core_oversubscription=3"), 16);
  EXPECT_DOUBLE_EQ(bisection(",oversubscription=2,core_oversubscription=1.5"), 16);
}

TEST(FatTree, IsOversubscribedAboveTheLevelOnly) {
  const Topology t = make_topology("dgx-h100:8,network=fat-tree,leaf=2,pod=4,core_oversubscription=4");
  EXPECT_DOUBLE_EQ(rate_of_shift(t, 4), 12);
  EXPECT_DOUBLE_EQ(rate_of_shift(make_topology("dgx-h100:4,network=fat-tree,leaf=4,oversubscription=4"), 2),
                   48);
  EXPECT_DOUBLE_EQ(t.route(DeviceId(0), DeviceId(63)).bandwidth.value, 48e9);  // of a message alone
}

TEST(RailNetwork, IsOversubscribedBetweenRailsOnly) {
  const Topology t = make_topology("dgx-h100:4,network=rail,oversubscription=4");
  EXPECT_DOUBLE_EQ(rate_of_shift(t, 2), 48);
  EXPECT_DOUBLE_EQ(rate_of_shift(t, 2, 1), 12);
}

TEST(Network, HasAsManyNodesOnALeafAsSwitchesOf64PortsTake) {
  const auto ends_with = [](const std::string& name, const std::string& last) {
    const Topology t = make_topology(name);
    const auto& vertices = t.parts().vertices;
    return std::ranges::any_of(vertices, [&](const Vertex& v) { return v.name == last; });
  };
  EXPECT_FALSE(ends_with("dgx-h100:32,network=rail", "group1.rail0"));
  EXPECT_TRUE(ends_with("dgx-h100:33,network=rail", "group1.rail0"));
  EXPECT_FALSE(ends_with("dgx-h100:256,network=rail", "core"));
  EXPECT_TRUE(ends_with("dgx-h100:257,network=rail", "core"));
  EXPECT_FALSE(ends_with("dgx-h100:4,network=fat-tree", "leaf1"));
  EXPECT_TRUE(ends_with("dgx-h100:5,network=fat-tree", "leaf1"));
  EXPECT_TRUE(ends_with("dgx-h100:257,network=fat-tree", "core"));
  EXPECT_FALSE(ends_with("p100-4x4:32,network=fat-tree", "leaf1"));
}

TEST(Network, SuitsAllPresets) {
  for (const TopologyPreset& preset : topology_presets()) {
    const Topology t = preset_topology(preset, 2, {.network = {.kind = NetworkOptions::Kind::Rail}});
    std::set<std::string> rails;
    std::int64_t nics = 0;
    for (const Vertex& v : t.parts().vertices) {
      nics += v.kind == VertexKind::Nic ? 1 : 0;
      if (const std::size_t at = v.name.find("rail"); at != std::string::npos)
        rails.insert(v.name.substr(at));
    }
    EXPECT_EQ(nics, 2 * preset.nics) << preset.name;
    EXPECT_EQ(static_cast<std::int64_t>(rails.size()), preset.rails) << preset.name;
    EXPECT_EQ(make_topology(t.name()), t) << preset.name;
  }
}

TEST(Preset, HasFewerGpusWhereTheyAreAlike) {
  const Topology t = make_topology("dgx-a100:2,gpus=3");
  EXPECT_EQ(t.num_devices(), 6U);
  EXPECT_EQ(t.name(), "dgx-a100:2,gpus=3");
  EXPECT_EQ(make_topology(t.name()), t);
  // The GPUs that are there, their NICs and the switch have the links that they have in a whole node.
  const Topology whole = make_topology("dgx-a100:2");
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(2)).bandwidth, whole.route(DeviceId(0), DeviceId(2)).bandwidth);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(3)).latency, whole.route(DeviceId(0), DeviceId(8)).latency);
  EXPECT_EQ(t.parts().vertices.size(), 2U * (3 + 3 + 1) + 1);
  EXPECT_EQ(make_topology("dgx-h100:2,gpus=4,network=rail").num_devices(), 8U);
  EXPECT_EQ(make_topology("dgx-h100:2,gpus=8"), make_topology("dgx-h100:2"));
  EXPECT_EQ(make_topology("gb200-nvl72:gpus=8").name(), "gb200-nvl72:gpus=8");
  EXPECT_EQ(refused_network("dgx-a100:gpus=9"),
            "topology \"dgx-a100:gpus=9\": found 9 GPUs a node, allowed 1 to 8");
  EXPECT_EQ(refused_network("dgx-a100:gpus=0"),
            "topology \"dgx-a100:gpus=0\": gpus must be a number of GPUs of a node from 1 on, got \"0\"");
  EXPECT_EQ(refused_network("p100-4x4:gpus=2"),
            "topology \"p100-4x4:gpus=2\": its nodes have all their GPUs; gpus suits dgx-a100, dgx-h100, "
            "grand-teton, hgx-h800, hgx-h200, dgx-b200, gb200-nvl72, dgx-b300, gb300-nvl72");
}

TEST(Network, NamesBuildTheSameAgain) {
  for (const char* name :
       {"dgx-h100:4,network=rail", "dgx-h100:40,network=fat-tree,leaf=2,pod=8,oversubscription=1.5",
        "p100-4x4:network=fat-tree,leaf=1", "dgx-h100:4,network=rail,core_oversubscription=3"})
    EXPECT_EQ(make_topology(name).name(), name);
  EXPECT_EQ(make_topology("dgx-h100:4,network=ideal").name(), "dgx-h100:4");
  EXPECT_EQ(make_topology("dgx-h100:4,network=ideal"), make_topology("dgx-h100:4"));
  EXPECT_EQ(make_topology("p100-4x4:4,leaf=2,network=rail").name(), "p100-4x4:network=rail,leaf=2");
}

TEST(Network, RefusesBadOptions) {
  const auto said = [](const std::string& options) {
    const std::string name = "dgx-h100:4," + options, all = refused_network(name);
    const std::string begin = "topology \"" + name + "\": ";
    EXPECT_TRUE(all.starts_with(begin)) << all;
    return all.substr(std::min(begin.size(), all.size()));
  };
  const std::string keys = "gpus, network, leaf, pod, oversubscription, core_oversubscription";
  EXPECT_EQ(said("rail"), "found \"rail\", allowed is key=value with the keys " + keys);
  EXPECT_EQ(said(""), "found \"\", allowed is key=value with the keys " + keys);
  EXPECT_EQ(said("network=rail,"), "found \"\", allowed is key=value with the keys " + keys);
  EXPECT_EQ(said("networks=rail"),
            "unknown option \"networks\" (did you mean \"network\"?); allowed: " + keys);
  EXPECT_EQ(said("network=rail,network=rail"), "option \"network\" is given twice");
  EXPECT_EQ(said("network=rails"),
            "network must be one of ideal, rail, fat-tree, got \"rails\" (did you mean \"rail\"?)");
  EXPECT_EQ(said("network=rail,leaf=0"), "leaf must be a number of nodes from 1 to 100000, got \"0\"");
  EXPECT_EQ(said("network=rail,leaf=2x"), "leaf must be a number of nodes from 1 to 100000, got \"2x\"");
  EXPECT_EQ(said("network=rail,leaf=4,pod=10"), "pod=10 is no multiple of leaf=4");
  EXPECT_EQ(said("network=fat-tree,pod=10"), "pod=10 is no multiple of leaf=4");
  EXPECT_EQ(said("network=rail,oversubscription=0.5"),
            "oversubscription must be a number from 1 to 100, got \"0.5\"");
  EXPECT_EQ(said("network=rail,oversubscription=nan"),
            "oversubscription must be a number from 1 to 100, got \"nan\"");
  EXPECT_EQ(said("network=rail,core_oversubscription=101"),
            "core_oversubscription must be a number from 1 to 100, got \"101\"");
  EXPECT_EQ(said("leaf=2"), "leaf needs network=rail or network=fat-tree");
  EXPECT_EQ(refused_network("dgx-h100:network=rail"),
            "topology \"dgx-h100:network=rail\": network=rail needs two nodes or more");
  EXPECT_EQ(refused_network("dgx-h100:0,network=rail"),
            "topology \"dgx-h100:0,network=rail\": found 0 nodes, allowed 1 to 12500");
}

TEST(Network, OfTenThousandDevicesIsBuiltAndRouted) {
  const Topology t = make_topology("dgx-h100:1250,network=fat-tree,oversubscription=2");
  EXPECT_EQ(t.num_devices(), 10'000U);
  EXPECT_EQ(way(t, "node0.gpu0", "node1249.gpu7"),
            (Way{"node0.nic0", "leaf0", "pod0.spine", "core", "pod4.spine", "leaf312", "node1249.nic7"}));
}

}  // namespace
}  // namespace pipesim
