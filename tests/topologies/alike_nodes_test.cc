#include "topologies/alike_nodes.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Each;

TEST(AlikeNodes, ThoseOfAPresetAreOfOneClass) {
  for (const char* preset : {"dgx-h100:4", "dgx-a100:6", "p100-4x4"})
    EXPECT_THAT(classes_of_nodes(make_topology(preset)), Each(0)) << preset;
}

TEST(AlikeNodes, AnotherKindOrAnotherLinkIsAnotherClass) {
  TopologyParts parts = make_topology("dgx-h100:3").parts();
  parts.kinds.push_back(parts.kinds.front());
  parts.kinds.back().name = "another";
  parts.devices[9].kind = 1;  // of node 1
  EXPECT_THAT(classes_of_nodes(Topology(parts)), testing::ElementsAre(0, 1, 0));
  parts = make_topology("dgx-h100:3").parts();
  parts.links.back().bandwidth = parts.links.back().bandwidth * 0.5;  // of the last node
  EXPECT_THAT(classes_of_nodes(Topology(parts)), testing::ElementsAre(0, 0, 1));
}

TEST(AlikeNodes, NodesWithALinkBetweenThemAreAlone) {
  TopologyParts parts = make_topology("dgx-h100:4").parts();
  Link link = parts.links.front();
  link.a = 0, link.b = 8;  // devices of nodes 0 and 1
  parts.links.push_back(link);
  const std::vector<std::int32_t> classes = classes_of_nodes(Topology(parts));
  EXPECT_NE(classes[0], classes[1]);
  EXPECT_NE(classes[0], classes[2]);
  EXPECT_NE(classes[1], classes[2]);
  EXPECT_EQ(classes[2], classes[3]);
}

// Two nodes of a class change places: all routes stay what they were, on lanes that change places.
TEST(AlikeNodes, MayChangePlaces) {
  for (const char* preset : {"dgx-h100:4", "dgx-a100:3", "p100-4x4"}) {
    const Topology topology = make_topology(preset);
    for_each_seed(20, [&](Rng& rng) {
      const auto any = [&](std::size_t n) { return static_cast<std::int32_t>(rng.below(n)); };
      const std::int32_t a = any(topology.num_nodes()), b = any(topology.num_nodes());
      const auto swapped = [&](DeviceId d) {
        const std::int32_t node = topology.device(d).node;
        if (node != a && node != b) return d;
        const auto from = topology.devices_of_node(node), to = topology.devices_of_node(node == a ? b : a);
        return to[static_cast<std::size_t>(std::ranges::find(from, d) - from.begin())];
      };
      std::map<LaneId, LaneId> lane_of;
      for (int i = 0; i < 40; ++i) {
        const DeviceId from(any(topology.num_devices())), to(any(topology.num_devices()));
        if (from == to) continue;
        const Route was = topology.route(from, to), is = topology.route(swapped(from), swapped(to));
        EXPECT_EQ(was.latency, is.latency);
        EXPECT_EQ(was.bandwidth, is.bandwidth);
        ASSERT_EQ(was.lanes.size(), is.lanes.size());
        for (std::size_t l = 0; l < was.lanes.size(); ++l)
          EXPECT_EQ(lane_of.try_emplace(was.lanes[l], is.lanes[l]).first->second, is.lanes[l]);
      }
    });
  }
}

}  // namespace
}  // namespace pipesim
