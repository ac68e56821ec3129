#include "costmodel/links/rings.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/costmodel/samples.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::vector<Ring> rings_of(const Topology& topology, const std::vector<DeviceId>& group) {
  LinkBundles bundles(topology);
  Hops hops(topology, bundles);
  NodeRings node_rings(hops);
  return find_rings(node_rings, hops, group);
}

double bus_bandwidth(const Topology& topology, std::size_t n) {
  auto time = CostModel(topology).collective_time(Collective::AllReduce, first_devices(n), Bytes(1 << 30));
  return 2.0 * static_cast<double>(n - 1) / static_cast<double>(n) * (1 << 30) / time.duration.value;
}

TEST(Rings, AreCyclesThroughAllMembers) {
  for_each_seed(40, [](Rng& rng) {
    Topology topology = make_topology(rng.below(2) == 0 ? "dgx1-v100:2" : "p100-4x4");
    std::vector<DeviceId> group;
    while (group.size() < 2) {
      group.clear();
      for (DeviceId device : first_devices(topology.num_devices())) {
        if (rng.below(2) == 0) group.push_back(device);
      }
    }
    double total = 0;
    for (Ring& ring : rings_of(topology, group)) {
      total += ring.share;
      std::sort(ring.order.begin(), ring.order.end());
      EXPECT_EQ(ring.order, group);
    }
    EXPECT_NEAR(total, 1, 1e-9);
  });
}

TEST(Rings, OneIsEnoughBehindASwitch) {
  std::vector<Ring> rings = rings_of(switched({8}), first_devices(8));
  ASSERT_EQ(rings.size(), 1);
  EXPECT_EQ(rings[0].order, first_devices(8));
}

TEST(Rings, OfACubeMeshUseAllItsLinks) {
  // Six NVLinks a GPU: two rings of double width and two of single width.
  std::vector<Ring> rings = rings_of(make_topology("dgx1-v100"), first_devices(8));
  std::vector<double> shares;
  for (const Ring& ring : rings) shares.push_back(ring.share);
  EXPECT_THAT(shares, testing::Pointwise(testing::DoubleNear(1e-9), {1.0 / 3, 1.0 / 3, 1.0 / 6, 1.0 / 6}));
}

// All-reduce bus bandwidth of NCCL at 1 GiB: VIA-Research/vTrain, trace/v100/AR_GPU{2,4,8}_1M_1024M_LUT.
TEST(Rings, ReachTheMeasuredBandwidthOfACubeMesh) {
  Topology topology = make_topology("dgx1-v100");
  EXPECT_NEAR(bus_bandwidth(topology, 2), 22.55e9, 2.2e9);
  EXPECT_NEAR(bus_bandwidth(topology, 4), 85.36e9, 8.5e9);
  EXPECT_NEAR(bus_bandwidth(topology, 8), 134.51e9, 13.4e9);
}

TEST(Rings, EnterNodesByDifferentCards) {
  std::vector<Ring> rings = rings_of(switched({4, 4}), first_devices(8));
  std::vector<DeviceId> entries;
  for (const Ring& ring : rings) entries.push_back(ring.order.front());
  EXPECT_EQ(entries, first_devices(4));
}

TEST(Rings, AreSharedByTheSlowestLinkOfTheGroup) {
  // Two devices in one node, one in the other: a single card leads to the other node.
  Topology topology = switched({2, 1});
  auto time =
      CostModel(topology).collective_time(Collective::AllGather, first_devices(3), Bytes(9'000'000'000));
  EXPECT_NEAR(time.duration.value, 2.0 / 3 * 0.9, 0.02);
}

}  // namespace
}  // namespace pipesim
