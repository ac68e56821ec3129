#include "topologies/topology.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "topologies/device_kinds.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

Cable cable(double gigabytes_per_second, bool duplex = true) {
  return {BytesPerSecond(gigabytes_per_second * 1e9), Seconds(1e-6), duplex};
}

// Two nodes: gpu0 and gpu1 on a switch, gpu2 at the end of a half-duplex link.
TopologyParts three_gpus() {
  TopologyDraft draft("three", "made up");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80"));
  const std::int32_t left = draft.add_node("left"), right = draft.add_node("right");
  const DraftVertex a = draft.add_device("gpu0", kind, left), b = draft.add_device("gpu1", kind, left);
  const DraftVertex hub = draft.add_switch("hub", left);
  const DraftVertex c = draft.add_device("gpu2", kind, right);
  draft.connect(a, hub, cable(12));
  draft.connect(b, hub, cable(6));
  draft.connect(hub, c, cable(1, false));
  return std::move(draft).finish();
}

template <class Change>
std::string refused_change(Change change) {
  TopologyParts parts = three_gpus();
  change(parts);
  return refusal([&] { Topology topology(std::move(parts)); });
}

TEST(Topology, NumbersLanesAfterTheDevices) {
  const Topology t(three_gpus());
  EXPECT_EQ(t.num_devices(), 3u);
  EXPECT_EQ(t.num_nodes(), 2u);
  EXPECT_EQ(t.num_lanes(), 3u + 2 + 2 + 1);
  EXPECT_EQ(t.lane_name(LaneId(1)), "gpu1");
  EXPECT_EQ(t.lane_name(LaneId(3)), "gpu0 -> hub");
  EXPECT_EQ(t.lane_name(LaneId(4)), "hub -> gpu0");
  EXPECT_EQ(t.lane_name(LaneId(7)), "hub <-> gpu2");
  EXPECT_EQ(t.lane_bandwidth(LaneId(5)), BytesPerSecond(6e9));
  EXPECT_THROW((void)t.lane_bandwidth(LaneId(2)), InternalError);
  EXPECT_THROW((void)t.lane_bandwidth(LaneId(8)), InternalError);
}

// Three devices on a bus, and one behind a cable.
TopologyParts bus_and_cable() {
  TopologyDraft draft("bus", "made up");
  const std::int32_t kind = draft.kind(*find_built_in_device_kind("K80")), node = draft.add_node("box");
  const DraftVertex bus = draft.add_bus("bus", node), hub = draft.add_switch("hub", node);
  for (const char* name : {"gpu0", "gpu1", "gpu2"})
    draft.connect(draft.add_device(name, kind, node), bus, cable(8, false));
  draft.connect(bus, hub, cable(8, false));
  draft.connect(hub, draft.add_device("gpu3", kind, node), cable(2));
  return std::move(draft).finish();
}

TEST(Topology, LinksOfABusAreOneLaneThatIsHeldOnce) {
  const Topology t(bus_and_cable());
  EXPECT_EQ(t.num_lanes(), 4u + 1 + 2);
  EXPECT_EQ(t.lane_name(LaneId(4)), "bus");
  EXPECT_EQ(t.lane_name(LaneId(5)), "hub -> gpu3");
  EXPECT_EQ(t.lane_bandwidth(LaneId(4)), BytesPerSecond(8e9));
  EXPECT_EQ(t.lane_bandwidth(LaneId(6)), BytesPerSecond(2e9));
  const Route across = t.route(DeviceId(0), DeviceId(2));
  EXPECT_THAT(across.lanes, testing::ElementsAre(LaneId(4)));
  EXPECT_DOUBLE_EQ(across.latency.value, 2e-6);
  EXPECT_THAT(t.route(DeviceId(3), DeviceId(1)).lanes, testing::ElementsAre(LaneId(6), LaneId(4)));
  TopologyParts parts = bus_and_cable();
  parts.links[1].bandwidth = BytesPerSecond(4e9);
  EXPECT_EQ(
      refusal([&] { Topology topology(parts); }),
      "topology \"bus\": link 1 (gpu1 to bus): found 4 GB/s, allowed: what other links of the bus have, "
      "8 GB/s");
  parts = bus_and_cable();
  parts.links[2].duplex = true;
  EXPECT_EQ(
      refusal([&] { Topology topology(parts); }),
      "topology \"bus\": link 2 (gpu2 to bus): found a duplex link of a bus, allowed: one lane for all, "
      "both ways");
  parts = bus_and_cable();
  parts.vertices[5].kind = VertexKind::Bus;
  EXPECT_EQ(refusal([&] { Topology topology(parts); }),
            "topology \"bus\": link 3 (bus to hub) joins two buses");
}

TEST(Topology, RoutesGiveLanesBottleneckAndLatency) {
  const Topology t(three_gpus());
  const Route there = t.route(DeviceId(0), DeviceId(1)), back = t.route(DeviceId(1), DeviceId(0));
  EXPECT_THAT(there.lanes, testing::ElementsAre(LaneId(3), LaneId(6)));
  EXPECT_THAT(back.lanes, testing::ElementsAre(LaneId(5), LaneId(4)));
  EXPECT_EQ(there.bandwidth, BytesPerSecond(6e9));
  EXPECT_DOUBLE_EQ(there.latency.value, 2e-6);
  EXPECT_THAT(t.route(DeviceId(2), DeviceId(1)).lanes, testing::ElementsAre(LaneId(7), LaneId(6)));
  EXPECT_THROW((void)t.route(DeviceId(1), DeviceId(1)), InternalError);
  EXPECT_THROW((void)t.route(DeviceId(1), DeviceId(3)), InternalError);
}

TEST(Topology, DistanceIsTheRouteClass) {
  const Topology t(three_gpus());
  EXPECT_EQ(t.distance(DeviceId(0), DeviceId(0)), 0);
  EXPECT_EQ(t.distance(DeviceId(0), DeviceId(1)), 1);
  EXPECT_EQ(t.distance(DeviceId(1), DeviceId(2)), 2);
  EXPECT_THAT(t.devices_of_node(0), testing::ElementsAre(DeviceId(0), DeviceId(1)));
}

TEST(Topology, FindsDevicesByName) {
  const Topology t(three_gpus());
  EXPECT_EQ(t.device_named("gpu2"), DeviceId(2));
  try {
    (void)t.device_named("gpu9");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown device \"gpu9\" (topology \"three\" has gpu0..gpu2) (did you mean \"gpu0\"?)");
  }
}

TEST(Topology, RefusesBadParts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused_change([](TopologyParts&) {}), "accepted");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.links.pop_back(); }),
            "topology \"three\": \"gpu0\" can't reach \"gpu2\": no chain of links joins them");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.links[0].b = p.links[0].a; }),
            "topology \"three\": link 0 (gpu0 to gpu0) joins a vertex to itself");
  EXPECT_EQ(refused_change([&](TopologyParts& p) { p.links[1].bandwidth.value = nan; }),
            "topology \"three\": link 1 (gpu1 to hub), bandwidth: found nan B/s, allowed 1 MB/s to 900 TB/s");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.links[1].latency.value = -1; }),
            "topology \"three\": link 1 (gpu1 to hub), latency: found -1 s, allowed 0 ns to 10 s");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.links[1].b = 9; }),
            "topology \"three\": link 1 joins vertices 1 and 9, there are 4");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.vertices[3].name = "gpu0"; }),
            "topology \"three\": two vertices are called \"gpu0\"");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.nodes[1] = "left"; }),
            "topology \"three\": two nodes are called \"left\"");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.kinds[0].memory = Bytes(0); }),
            "topology \"three\": device kind \"K80\", memory: found 0 B, allowed 1 MB to 900 TB");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.kinds[0].products.efficiency.clear(); }),
            "topology \"three\": device kind \"K80\", efficiency: found no points, at least one is needed");
  EXPECT_EQ(refused_change([](TopologyParts& p) {
              p.kinds[0].product_rates[DataType::MxFloat8] = {{{Flops(1), 0.5}}, 1};
            }),
            "topology \"three\": device kind \"K80\", products in mxfp8 have no peak rate");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.devices[2].kind = 4; }),
            "topology \"three\": \"gpu2\" is of kind 4, there are 1");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.devices[2].name = "gpu7"; }),
            "topology \"three\": device \"gpu7\" and its vertex \"gpu2\" differ");
  EXPECT_EQ(refused_change([](TopologyParts& p) { p.devices.clear(); }),
            "topology \"three\": it has no devices, at least one is needed");
}

TEST(Topology, FingerprintFollowsWhatChangesASimulation) {
  const std::string print = Topology(three_gpus()).fingerprint();
  EXPECT_THAT(print, testing::MatchesRegex("[0-9a-f]{16}"));
  TopologyParts renamed = three_gpus();
  renamed.name = "other";
  renamed.source = "elsewhere";
  renamed.kinds[0].source = "a guess";
  EXPECT_EQ(Topology(renamed).fingerprint(), print);

  const auto changed = [&](auto change) {
    TopologyParts parts = three_gpus();
    change(parts);
    return Topology(parts).fingerprint() != print;
  };
  EXPECT_TRUE(changed([](TopologyParts& p) { p.links[0].bandwidth.value *= 1 + 1e-12; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.links[0].latency.value = 2e-6; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.links[2].duplex = true; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].memory += Bytes(1); }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].overlap = false; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].shape_losses = false; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].fused_attention = {0.5, 0.25}; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].flash_attention_2 = {0.5, 0.25}; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].products.sustained = 0.5; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.kinds[0].products.efficiency[0].fraction /= 2; }));
  EXPECT_TRUE(changed([](TopologyParts& p) {
    p.kinds[0].product_rates[DataType::Float32] = {{{Flops(1), 0.5}}, 1};
  }));
  EXPECT_TRUE(changed([](TopologyParts& p) { p.devices[2].node = p.vertices[2].node = 0; }));
  EXPECT_TRUE(changed([](TopologyParts& p) { std::swap(p.links[0], p.links[1]); }));
}

}  // namespace
}  // namespace pipesim
