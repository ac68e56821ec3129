#include "topologies/presets/presets.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/base/errors.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

std::string refused_name(std::string_view text) {
  return refusal([&] { (void)make_topology(text); });
}

double gigabytes_per_second(const Topology& t, std::string_view from, std::string_view to) {
  return t.route(t.device_named(from), t.device_named(to)).bandwidth.value / 1e9;
}

std::string first_lane(const Topology& t, std::string_view from, std::string_view to) {
  return t.lane_name(t.route(t.device_named(from), t.device_named(to)).lanes.front());
}

TEST(Presets, HaveTheirCounts) {
  const std::map<std::string, std::pair<std::size_t, std::size_t>> devices_and_nodes{
      {"p100-4x4", {16, 4}},    {"k80-16x4", {64, 16}},  {"dapple-a", {16, 2}},    {"dapple-b", {16, 16}},
      {"dapple-c", {16, 16}},   {"dgx1-v100", {8, 1}},   {"dgx2", {16, 1}},        {"dgx-a100", {8, 1}},
      {"roce-a100", {8, 1}},    {"grand-teton", {8, 1}}, {"dgx-h100", {8, 1}},     {"hgx-h800", {8, 1}},
      {"hgx-h200", {8, 1}},     {"dgx-b200", {8, 1}},    {"gb200-nvl72", {72, 1}}, {"dgx-b300", {8, 1}},
      {"gb300-nvl72", {72, 1}}, {"pcie-v100-4", {4, 1}}, {"flexflow-sim", {8, 2}}};
  EXPECT_EQ(topology_presets().size(), devices_and_nodes.size());
  for (const TopologyPreset& preset : topology_presets()) {
    const Topology t = make_topology(preset.name);
    EXPECT_EQ(t.name(), preset.name);
    EXPECT_EQ(t.num_devices(), devices_and_nodes.at(preset.name).first) << preset.name;
    EXPECT_EQ(t.num_nodes(), devices_and_nodes.at(preset.name).second) << preset.name;
    EXPECT_FALSE(preset.source.empty());
    EXPECT_FALSE(preset.description.empty());
  }
}

TEST(Presets, ScaleToAnyNumberOfNodes) {
  for (const TopologyPreset& preset : topology_presets()) {
    for (const std::int64_t nodes : {1, 2, 3}) {
      const Topology t = make_topology(preset.name + ":" + std::to_string(nodes));
      EXPECT_EQ(static_cast<std::int64_t>(t.num_nodes()), nodes);
      EXPECT_EQ(static_cast<std::int64_t>(t.num_devices()), nodes * preset.devices_per_node) << preset.name;
    }
    EXPECT_EQ(make_topology(preset.name + ":" + std::to_string(preset.default_nodes)),
              make_topology(preset.name));
  }
}

TEST(Presets, StayInsideTheNodeForItsOwnTraffic) {
  for (const TopologyPreset& preset : topology_presets()) {
    const Topology t = preset_topology(preset, 2);
    const auto n = static_cast<std::int32_t>(preset.devices_per_node);
    for (std::int32_t a = 0; a < 2 * n; ++a) {
      for (std::int32_t b = 0; b < 2 * n; ++b) {
        if (a == b) continue;
        bool over_network = false;
        for (const LaneId lane : t.route(DeviceId(a), DeviceId(b)).lanes)
          over_network |= t.lane_name(lane).find("network") != std::string::npos;
        EXPECT_EQ(over_network, t.distance(DeviceId(a), DeviceId(b)) == 2)
            << preset.name << " " << a << " " << b;
      }
    }
  }
}

TEST(Presets, Dgx1FollowsThePublishedCubeMesh) {
  const Topology t = make_topology("dgx1-v100");
  // Links between GPUs as `nvidia-smi topo -m` shows them; 0: over PCIe.
  constexpr int kLinks[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
                                {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  for (std::int32_t a = 0; a < 8; ++a) {
    int links = 0;
    for (std::int32_t b = 0; b < 8; ++b) {
      links += kLinks[a][b];
      if (a == b) continue;
      const Route route = t.route(DeviceId(a), DeviceId(b));
      if (kLinks[a][b] > 0) {
        EXPECT_EQ(route.lanes.size(), 1u) << a << " " << b;
        EXPECT_DOUBLE_EQ(route.bandwidth.value, kLinks[a][b] * 23.5e9) << a << " " << b;
      } else {
        EXPECT_EQ(route.lanes.size(), 5u) << a << " " << b;
        EXPECT_DOUBLE_EQ(route.bandwidth.value, 6e9) << a << " " << b;
      }
    }
    EXPECT_EQ(links, 6);
  }
}

TEST(Presets, RatesBetweenPairs) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("p100-4x4"), "node0.gpu0", "node0.gpu3"), 18);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("p100-4x4"), "node0.gpu0", "node3.gpu0"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("k80-16x4"), "node0.gpu0", "node0.gpu2"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("k80-16x4"), "node0.gpu0", "node9.gpu2"), 6.5);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dapple-a"), "node0.gpu0", "node0.gpu4"), 47);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dapple-a"), "node0.gpu0", "node1.gpu0"), 2.6);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dapple-b"), "node0.gpu0", "node1.gpu0"), 2.6);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dapple-c"), "node0.gpu0", "node1.gpu0"), 1.15);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx2"), "gpu0", "gpu15"), 120);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-a100:2"), "node0.gpu0", "node0.gpu7"), 230);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-a100:2"), "node0.gpu0", "node1.gpu7"), 24);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-h100:2"), "node0.gpu0", "node1.gpu7"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("hgx-h200"), "gpu0", "gpu7"), 370.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("hgx-h800"), "gpu0", "gpu7"), 164.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("roce-a100:2"), "node0.gpu0", "node1.gpu7"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-b200"), "gpu0", "gpu7"), 721.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("gb200-nvl72:2"), "node0.gpu0", "node0.gpu71"), 721.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("gb200-nvl72:2"), "node0.gpu0", "node1.gpu71"), 48);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-b300:2"), "node0.gpu0", "node0.gpu7"), 721.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("dgx-b300:2"), "node0.gpu0", "node1.gpu7"), 96);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("gb300-nvl72:2"), "node0.gpu0", "node0.gpu71"), 721.8);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("gb300-nvl72:2"), "node0.gpu0", "node1.gpu71"), 96);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("pcie-v100-4:2"), "node0.gpu0", "node0.gpu3"), 12);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(make_topology("pcie-v100-4:2"), "node0.gpu0", "node1.gpu3"), 1.15);
}

TEST(Presets, FlexflowSimHasTheConstantsOfItsSimulatorAndNoLosses) {
  const Topology t = make_topology("flexflow-sim");
  const Route near = t.route(t.device_named("node0.gpu0"), t.device_named("node0.gpu3"));
  const Route far = t.route(t.device_named("node0.gpu0"), t.device_named("node1.gpu0"));
  EXPECT_DOUBLE_EQ(near.bandwidth.value, 4 * 1024 * 1024 * 1e3);  // 4 MiB a millisecond
  EXPECT_DOUBLE_EQ(far.bandwidth.value, 1024 * 1024 * 1e3);
  EXPECT_EQ(near.latency, Seconds(0));
  EXPECT_EQ(far.latency, Seconds(0));
  const DeviceKind& kind = t.kind(DeviceId(0));
  EXPECT_EQ(kind.peak, (std::map<DataType, FlopsPerSecond>{{DataType::Float32, FlopsPerSecond(5e12)}}));
  EXPECT_EQ(kind.products.efficiency, (std::vector<EfficiencyPoint>{{Flops(1), 1}}));
  EXPECT_EQ(kind.memory_bandwidth, BytesPerSecond(500e9));
  EXPECT_EQ(kind.memory_efficiency, 1);
  EXPECT_EQ(kind.launch_overhead, Seconds(20e-6));
  EXPECT_FALSE(kind.shape_losses);
}

TEST(Presets, NicsAreSharedAsInTheBox) {
  // The lane by which a GPU's traffic to another node enters the network.
  const auto way_out = [](const Topology& t, std::string_view from) {
    for (const LaneId lane : t.route(t.device_named(from), t.device_named("node1.gpu0")).lanes)
      if (t.lane_name(lane).ends_with("-> network")) return t.lane_name(lane);
    return std::string("none");
  };
  EXPECT_EQ(way_out(make_topology("p100-4x4"), "node0.gpu3"), "node0.nic0 -> network");
  EXPECT_EQ(way_out(make_topology("dgx1-v100:2"), "node0.gpu3"), "node0.nic1 -> network");
  EXPECT_EQ(way_out(make_topology("dgx1-v100:2"), "node0.gpu2"), "node0.nic1 -> network");
  EXPECT_EQ(way_out(make_topology("dgx2:2"), "node0.gpu15"), "node0.nic7 -> network");
  EXPECT_EQ(way_out(make_topology("dgx-a100:2"), "node0.gpu5"), "node0.nic5 -> network");
  EXPECT_EQ(way_out(make_topology("roce-a100:2"), "node0.gpu5"), "node0.nic2 -> network");
  EXPECT_EQ(way_out(make_topology("dapple-a"), "node0.gpu7"), "node0.nic0 -> network");
}

TEST(Presets, RefuseWhatIsNone) {
  const std::string all =
      "; allowed: p100-4x4, k80-16x4, dapple-a, dapple-b, dapple-c, dgx1-v100, dgx2, dgx-a100, roce-a100, "
      "dgx-h100, grand-teton, hgx-h800, hgx-h200, dgx-b200, gb200-nvl72, dgx-b300, gb300-nvl72, pcie-v100-4, "
      "flexflow-sim, cpu, "
      "each also as NAME:N for N "
      "nodes (cpu:N for N threads of a host), presets also as NAME:N,gpus=4,network=rail, "
      "levels:4@10GB/s,2@1.25GB/s, or a .json file";
  EXPECT_EQ(refused_name("dgx-a10"), "unknown topology \"dgx-a10\" (did you mean \"dgx-a100\"?)" + all);
  EXPECT_EQ(refused_name("supercomputer"), "unknown topology \"supercomputer\"" + all);
  EXPECT_EQ(refused_name("dgx-a100:0"), "topology \"dgx-a100:0\": found 0 nodes, allowed 1 to 12500");
  EXPECT_EQ(refused_name("dgx-a100:-3"), "topology \"dgx-a100:-3\": found -3 nodes, allowed 1 to 12500");
  EXPECT_EQ(refused_name("dgx-a100:1000000000"),
            "topology \"dgx-a100:1000000000\": found 1000000000 nodes, allowed 1 to 12500");
  EXPECT_EQ(
      refused_name("p100-4x4:99999999999999999999"),
      "topology \"p100-4x4:99999999999999999999\": found \"99999999999999999999\" as the number of nodes, "
      "allowed 1 to 25000");
  EXPECT_EQ(refused_name("dgx2:two"),
            "topology \"dgx2:two\": found \"two\" as the number of nodes, allowed 1 to 6250");
  EXPECT_EQ(refused_name("no/such/file.json").find("no/such/file.json"), 0u);
}

TEST(Levels, AreAHierarchyOfSwitches) {
  const Topology t = make_topology("levels:4@10GB/s,2@1.25GB/s");
  EXPECT_EQ(t.num_devices(), 8u);
  EXPECT_EQ(t.num_nodes(), 2u);
  EXPECT_EQ(t.kind(DeviceId(0)).name, "V100-SXM2-16GB");
  EXPECT_DOUBLE_EQ(gigabytes_per_second(t, "node0.gpu0", "node0.gpu3"), 10);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(t, "node0.gpu0", "node1.gpu3"), 1.25);
  EXPECT_EQ(t.route(DeviceId(0), DeviceId(4)).latency, Seconds(0));
  EXPECT_EQ(first_lane(t, "node0.gpu0", "node1.gpu3"), "node0.gpu0 -> node0.switch");
  EXPECT_EQ(t.parts().vertices.back().name, "level1.switch0");
  const Topology single = make_topology("levels:2@10GB/s@3us");
  EXPECT_EQ(single.device(DeviceId(1)).name, "gpu1");
  EXPECT_DOUBLE_EQ(single.route(DeviceId(0), DeviceId(1)).latency.value, 6e-6);
}

TEST(Levels, RefuseWhatIsNone) {
  const std::string form = "levels:4@10GB/s,2@1.25GB/s (SIZE@BANDWIDTH or SIZE@BANDWIDTH@LATENCY each)";
  EXPECT_EQ(refused_name("levels:"), "topology \"levels:\": found \"\", allowed is a form like " + form);
  EXPECT_EQ(refused_name("levels:4@10GB/s,"),
            "topology \"levels:4@10GB/s,\": found \"\", allowed is a form like " + form);
  EXPECT_EQ(refused_name("levels:4"), "topology \"levels:4\": found \"4\", allowed is a form like " + form);
  EXPECT_EQ(refused_name("levels:x@1GB/s"),
            "topology \"levels:x@1GB/s\": found \"x\" as the size of a level, allowed is an integer from 1 "
            "to 100000");
  EXPECT_EQ(refused_name("levels:-4@1GB/s"),
            "topology \"levels:-4@1GB/s\": found \"-4\" as the size of a level, allowed is an integer from 1 "
            "to 100000");
  EXPECT_EQ(
      refused_name("levels:1000@1GB/s,1000@1GB/s"),
      "topology \"levels:1000@1GB/s,1000@1GB/s\": more than 100000 devices, at most 100000 are allowed");
  EXPECT_EQ(refused_name("levels:4@1B/s"),
            "topology \"levels:4@1B/s\": \"4@1B/s\": found 1 B/s, allowed 1 MB/s to 900 TB/s");
  EXPECT_EQ(refused_name("levels:4@10GB")
                .find("topology \"levels:4@10GB\": \"4@10GB\": \"10GB\" is not a bandwidth"),
            0u);
}

}  // namespace
}  // namespace pipesim
