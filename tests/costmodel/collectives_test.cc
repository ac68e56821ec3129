#include "costmodel/collectives.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "costmodel/links/nccl.h"
#include "sim/base/errors.h"
#include "tests/costmodel/samples.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double pico = 1e-12;
constexpr Collective all_kinds[] = {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                                    Collective::AllToAll,  Collective::Broadcast,     Collective::Reduce,
                                    Collective::Send};

double streamed(double seconds, double chunk_overhead) {
  return seconds + 2 * std::sqrt(chunk_overhead * seconds);
}

TEST(BytesOnLinks, FollowsTheAlgebra) {
  EXPECT_EQ(bytes_on_links(Collective::AllReduce, 4, Bytes(100)), 600);
  EXPECT_EQ(bytes_on_links(Collective::ReduceScatter, 4, Bytes(100)), 300);
  EXPECT_EQ(bytes_on_links(Collective::AllGather, 4, Bytes(100)), 300);
  EXPECT_EQ(bytes_on_links(Collective::Broadcast, 4, Bytes(100)), 300);
  EXPECT_EQ(bytes_on_links(Collective::Reduce, 4, Bytes(100)), 300);
  EXPECT_EQ(bytes_on_links(Collective::AllToAll, 4, Bytes(100)), 75);
  EXPECT_EQ(bytes_on_links(Collective::Send, 2, Bytes(100)), 100);
}

TEST(Collective, HasAName) {
  std::vector<std::string_view> names;
  for (Collective kind : all_kinds) names.push_back(name_of(kind));
  EXPECT_THAT(names, testing::ElementsAre("all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                          "broadcast", "reduce", "send"));
}

TEST(CollectiveTime, RingOnASwitchHasAClosedForm) {
  Topology topology = switched({8});
  CostModel costs(topology);
  for (std::size_t n : {2, 3, 5, 8}) {
    double size = 10e6, part = static_cast<double>(n - 1) / static_cast<double>(n);
    CollectiveTime time = costs.collective_time(Collective::AllReduce, first_devices(n), Bytes(10'000'000));
    EXPECT_EQ(time.algorithm, "ring");
    EXPECT_THAT(time.latency.value,
                DoubleNear(nccl::call_overhead + 2 * static_cast<double>(n - 1) * 1e-6, pico));
    double hold = streamed(2 * part * size / 100e9, nccl::chunk_overhead);
    EXPECT_THAT(time.duration.value, DoubleNear(time.latency.value + hold, pico));
    EXPECT_EQ(time.lanes.size(), 2 * n);  // each device's link, both directions
    for (const LaneHold& lane : time.lanes) EXPECT_THAT(lane.hold.value, DoubleNear(hold, pico));
  }
}

TEST(CollectiveTime, OthersAreHalfAnAllReduceOnASwitch) {
  Topology topology = switched({8});
  CostModel costs(topology);
  std::vector<DeviceId> group = first_devices(8);
  for (Collective kind : {Collective::AllGather, Collective::ReduceScatter}) {
    CollectiveTime time = costs.collective_time(kind, group, Bytes(10'000'000));
    double expected = nccl::call_overhead + 7e-6 + streamed(7.0 / 8 * 1e-4, nccl::chunk_overhead);
    EXPECT_THAT(time.duration.value, DoubleNear(expected, pico)) << name_of(kind);
  }
  for (Collective kind : {Collective::Broadcast, Collective::Reduce}) {
    CollectiveTime time = costs.collective_time(kind, group, Bytes(10'000'000));
    double expected = nccl::call_overhead + 7e-6 + streamed(1e-4, nccl::chunk_overhead);
    EXPECT_THAT(time.duration.value, DoubleNear(expected, pico)) << name_of(kind);
  }
  CollectiveTime time = costs.collective_time(Collective::AllToAll, group, Bytes(80'000'000));
  double expected =
      nccl::call_overhead + 1e-6 + 7 * nccl::peer_overhead + streamed(7.0 / 8 * 1e-4, nccl::chunk_overhead);
  EXPECT_THAT(time.duration.value, DoubleNear(expected, pico));
}

TEST(BroadcastGather, OnASwitchIsAPipelinedChain) {
  Topology topology = switched({8});
  CostModel costs(topology);
  for (std::size_t n : {2, 3, 8}) {
    const auto hops = static_cast<double>(n - 1);
    CollectiveTime time = costs.plan_broadcast_gather(first_devices(n)).at(Bytes(10'000'000));
    EXPECT_THAT(time.latency.value, DoubleNear(nccl::call_overhead + hops * nccl::chunk_overhead, pico));
    EXPECT_THAT((time.duration - time.latency).value,
                DoubleNear(streamed(1e-4, hops * nccl::chunk_overhead), pico));
    EXPECT_EQ(time.lanes.size(), 2 * n);
  }
}

// A token goes to two of four experts on two nodes. They are on one node in two of the six cases, so it is on
// 5/3 nodes on average; a row in six need not cross again.
TEST(TokenExchange, CrossesToEachNodeOnce) {
  const Topology topology = switched({2, 2});
  const CostModel costs(topology);
  const NodeRoute route{4, 2, 2};
  EXPECT_DOUBLE_EQ(route.nodes_of_a_token(2), 5.0 / 3);
  const CollectiveTime time = costs.plan_token_exchange(first_devices(4), route).at(Bytes(40'000'000));
  EXPECT_EQ(time.algorithm, "by nodes");
  // A device sends half of its 10 MB through its card, less what its peers there hand on. Inside a node, a
  // device hands on a 16th of all for each node, which takes less.
  EXPECT_THAT(time.latency.value, DoubleNear(nccl::call_overhead + 6e-6 + 2 * nccl::peer_overhead, pico));
  EXPECT_THAT((time.duration - time.latency).value,
              DoubleNear(streamed(5.0 / 6 * 5e6 / 10e9, nccl::network_chunk_overhead), pico));
  double inside = 0;
  for (const LaneHold& lane : time.lanes) {
    if (lane.hold.value < 0.5 * (time.duration - time.latency).value) inside = lane.hold.value;
  }
  EXPECT_THAT(inside / (time.duration - time.latency).value,
              DoubleNear(5e6 / 100e9 / (5.0 / 6 * 5e6 / 10e9), 1e-9));
}

// With one expert a token, as many bytes cross as in any all-to-all.
TEST(TokenExchange, OfOneExpertATokenCrossesAsOften) {
  const Topology topology = switched({4, 4, 4});
  const CostModel costs(topology);
  const auto busiest = [](const CollectiveTime& time) {
    double longest = 0;
    for (const LaneHold& lane : time.lanes) longest = std::max(longest, lane.hold.value);
    return longest;
  };
  const CollectiveTime direct =
                           costs.collective_time(Collective::AllToAll, first_devices(12), Bytes(12'000'000)),
                       by_nodes =
                           costs.plan_token_exchange(first_devices(12), {12, 1, 3}).at(Bytes(12'000'000));
  EXPECT_THAT(busiest(by_nodes), DoubleNear(busiest(direct), 1e-9));
}

// DeepSeek-V3: 8 of 256 experts, on at most 4 of 8 nodes. A node of the four has none of the eight with
// probability C(96, 8) / C(128, 8).
TEST(TokenExchange, IsLimitedToSomeNodes) {
  double none = 1;
  for (int i = 0; i < 8; ++i) none *= (96.0 - i) / (128.0 - i);
  EXPECT_NEAR((NodeRoute{256, 8, 4}.nodes_of_a_token(8)), 4 * (1 - none), 1e-12);
  EXPECT_EQ((NodeRoute{256, 8, 1}.nodes_of_a_token(8)), 1);
  EXPECT_EQ((NodeRoute{256, 8, 4}.nodes_of_a_token(1)), 1);
  EXPECT_LT((NodeRoute{256, 8, 4}.nodes_of_a_token(8)), (NodeRoute{256, 8, 8}.nodes_of_a_token(8)));
}

// DeepEP and HybridEP send a token once to each node, and hand it on once to each device there. A token has
// two of eight experts, one on each of 2 x 4 devices: they are on one node in 12 of 28 cases, on two devices
// always.
TEST(TokenExchange, OfADispatcherReachesEachDeviceOnce) {
  const NodeRoute route{8, 2, 2};
  EXPECT_DOUBLE_EQ(route.nodes_of_a_token(2), 2 - 12.0 / 28);
  EXPECT_DOUBLE_EQ(route.devices_of_a_token(2, 4), 2);
  // With two experts a device, 8 of 16 on 2 nodes x 4 devices: counted over all pairs of the 16.
  int devices = 0, pairs = 0;
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < a; ++b) ++pairs, devices += a / 2 == b / 2 ? 1 : 2;
  }
  EXPECT_NEAR((NodeRoute{16, 2, 2}.devices_of_a_token(2, 4)), static_cast<double>(devices) / pairs, 1e-12);
  // Limited to one of two nodes, whose eight experts are on four devices.
  devices = pairs = 0;
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < a; ++b) ++pairs, devices += a / 2 == b / 2 ? 1 : 2;
  }
  EXPECT_NEAR((NodeRoute{16, 2, 1}.devices_of_a_token(2, 4)), static_cast<double>(devices) / pairs, 1e-12);
}

// DeepEP's kernels on an H100 node: with few multiprocessors these are the limit, with many the links
// (ai-dynamo/aiconfigurator, wideep_deepep_normal_perf: combine of 8,192 tokens a device, 7,168 features in
// bfloat16, 8 of 256 experts, EP8; 7,656 us is 5.295 devices a token at 81.0 GB/s).
TEST(TokenExchange, IsAsFastAsItsMultiprocessors) {
  const Topology topology = make_topology("dgx-h100");
  const auto time = [&](int taken) {
    const CostModel costs(
        topology, nullptr,
        parse_runtime(fmt::format("pipesim:dispatcher=deepep,dispatcher-multiprocessors={}", taken)));
    const Bytes rows(std::int64_t{8} * 8192 * 8 * 7168 * 2);
    return costs.plan_token_exchange(first_devices(8), {256, 8, 8}).at(rows).duration.value;
  };
  const double bytes_of_a_device = 8192.0 * 7168 * 2 * (NodeRoute{256, 8, 8}.devices_of_a_token(1, 8));
  EXPECT_NEAR(bytes_of_a_device / time(4), 81.0e9, 0.05 * 81.0e9);
  EXPECT_NEAR(time(4) / time(8), 2, 0.1);
  EXPECT_EQ(time(48), time(64));
}

// DeepEP's combine of 4,096 tokens with 7,168 features and 8 of 256 experts on 2 and 4 nodes of H100 (same
// source): its rates are those of 4 multiprocessors on one and two nodes, so all others are predicted.
// HybridEP's kernels alone with 16 of them: bytes of a token for each node that it reaches, a second
// (deepseek-ai/DeepEP, branch hybrid-ep; bfloat16).
TEST(TokenExchange, IsThatOfMeasuredDispatchers) {
  const auto time = [&](const char* dispatcher, int nodes, int taken, const NodeRoute& route) {
    const Topology topology = make_topology(fmt::format("dgx-h100:{}", nodes));
    const CostModel costs(
        topology, nullptr,
        parse_runtime(fmt::format("pipesim:dispatcher={},dispatcher-multiprocessors={}", dispatcher, taken)));
    const Bytes rows(std::int64_t{8} * nodes * 4096 * 8 * 7168 * 2);
    return costs.plan_token_exchange(first_devices(static_cast<std::size_t>(8 * nodes)), route)
        .at(rows)
        .duration.value;
  };
  struct Measured {
    int nodes, taken;
    double us;
  };
  for (const auto& [nodes, taken, us] : {Measured{2, 8, 4989.6},
                                         {2, 16, 2604.3},
                                         {2, 24, 1827.1},
                                         {4, 8, 6184.3},
                                         {4, 16, 3655.3},
                                         {4, 24, 3641.1}})
    EXPECT_NEAR(time("deepep", nodes, taken, {256, 8, 8}) * 1e6, us, 0.08 * us) << nodes << " " << taken;
  for (const auto& [nodes, gigabytes] : {std::pair{2, 71.71}, {4, 57.69}, {8, 49.97}}) {
    const NodeRoute route{64 * nodes, 8, 8};
    const double bytes = route.nodes_of_a_token(nodes) * 4096 * 7168 * 2;
    EXPECT_NEAR(bytes / time("hybridep", nodes, 16, route), gigabytes * 1e9, 0.1 * gigabytes * 1e9) << nodes;
  }
}

TEST(TokenExchange, InsideANodeOrBetweenUnequalOnesIsDirect) {
  for (const Topology& topology : {switched({8}), switched({3, 5})}) {
    const CostModel costs(topology);
    const CollectiveTime time = costs.plan_token_exchange(first_devices(8), {8, 2, 2}).at(Bytes(8'000'000));
    EXPECT_EQ(time.algorithm, "direct");
    EXPECT_EQ(time.duration,
              costs.collective_time(Collective::AllToAll, first_devices(8), Bytes(8'000'000)).duration);
  }
}

// Two rings share the bytes. Each has two hops inside a node, where bytes take a tenth of the time, and two
// between nodes, and a broadcast takes three of the four.
TEST(BroadcastGather, BetweenNodesFillsTheSlowHops) {
  Topology topology = switched({2, 2});
  CollectiveTime time = CostModel(topology).plan_broadcast_gather(first_devices(4)).at(Bytes(10'000'000));
  const double most = 0.5 * 10e6 / 10e9, all = 0.75 * 2 * (most + most / 10);
  EXPECT_THAT(
      time.latency.value,
      DoubleNear(nccl::call_overhead + 0.75 * 2 * (nccl::chunk_overhead + nccl::network_chunk_overhead),
                 pico));
  EXPECT_THAT((time.duration - time.latency).value,
              DoubleNear(most + 2 * std::sqrt(nccl::network_chunk_overhead * all), pico));
}

TEST(BroadcastGather, TakesLongerTheMoreMembersThereAre) {
  Topology topology = make_topology("roce-a100:32");
  CostModel costs(topology);
  double before = 0;
  for (std::size_t n : {8, 16, 32, 64, 128, 256}) {
    const double now = costs.plan_broadcast_gather(first_devices(n)).duration_at(Bytes(50'000'000)).value;
    EXPECT_GT(now, before);
    EXPECT_GE(
        now,
        costs.collective_time(Collective::Broadcast, first_devices(n), Bytes(50'000'000)).duration.value);
    before = now;
  }
}

TEST(CollectiveTime, SendTakesItsRoute) {
  Topology topology = switched({2, 2});
  CostModel costs(topology);
  CollectiveTime time = costs.collective_time(Collective::Send, devices({0, 2}), Bytes(1'000'000));
  EXPECT_THAT(time.latency.value, DoubleNear(nccl::call_overhead + 5e-6, pico));
  EXPECT_THAT(time.duration.value, DoubleNear(time.latency.value + 1e-4, pico));
  std::vector<LaneId> lanes = topology.route(DeviceId(0), DeviceId(2)).lanes;
  std::sort(lanes.begin(), lanes.end());
  ASSERT_EQ(time.lanes.size(), lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    EXPECT_EQ(time.lanes[i].lane, lanes[i]);
    EXPECT_THAT(time.lanes[i].hold.value, DoubleNear(1e-4, pico));
  }
}

TEST(CollectiveTime, SendUsesParallelCablesAsOne) {
  Topology plain = switched({2});
  TopologyParts parts = plain.parts();
  parts.links.insert(parts.links.end(), parts.links.begin(), parts.links.begin() + 2);
  Topology doubled{parts};
  CostModel costs(doubled);
  CollectiveTime time = costs.collective_time(Collective::Send, devices({0, 1}), Bytes(1'000'000));
  EXPECT_EQ(time.lanes.size(), 4);
  EXPECT_THAT((time.duration - time.latency).value, DoubleNear(5e-6, pico));
}

TEST(CollectiveTime, TakesTheComputeLanesOfDevicesWithoutOverlap) {
  DeviceKind kind = plain_kind();
  kind.overlap = false;
  Topology topology = switched({4}, kind);
  CollectiveTime time =
      CostModel(topology).collective_time(Collective::AllReduce, devices({3, 1}), Bytes(10'000'000));
  ASSERT_EQ(time.lanes.size(), 2 + 4);
  EXPECT_EQ(time.lanes[0].lane, topology.compute_lane(DeviceId(1)));
  EXPECT_EQ(time.lanes[1].lane, topology.compute_lane(DeviceId(3)));
  EXPECT_THAT(time.lanes[0].hold.value, DoubleNear(time.duration.value, pico));
  EXPECT_THAT(time.lanes[2].hold.value, DoubleNear((time.duration - time.latency).value, pico));
}

TEST(CollectiveTime, ChoosesTheAlgorithmBySize) {
  // Network cards as fast as the links inside: a tree costs no bandwidth, a ring of 64 devices costs 126
  // steps.
  Topology topology = switched({8, 8, 8, 8, 8, 8, 8, 8});
  CostModel costs(topology);
  std::vector<DeviceId> all = first_devices(64);
  EXPECT_EQ(costs.collective_time(Collective::AllReduce, all, Bytes(1000)).algorithm, "tree");
  EXPECT_EQ(costs.collective_time(Collective::AllGather, all, Bytes(1000)).algorithm, "hierarchical");
  EXPECT_EQ(costs.collective_time(Collective::AllGather, all, Bytes(10'000'000'000)).algorithm, "ring");
  EXPECT_EQ(costs.collective_time(Collective::Broadcast, all, Bytes(1000)).algorithm, "tree");
  EXPECT_EQ(costs.collective_time(Collective::Broadcast, all, Bytes(10'000'000'000)).algorithm, "ring");
  EXPECT_EQ(costs.collective_time(Collective::AllToAll, all, Bytes(1000)).algorithm, "direct");
}

TEST(CollectiveTime, UsesEveryNetworkCard) {
  // 8 cards of 10 GB/s a node: an all-gather over 4 nodes gets about 80 GB/s, a single ring through one
  // card 10.
  Topology topology = switched({8, 8, 8, 8});
  CollectiveTime time =
      CostModel(topology).collective_time(Collective::AllGather, first_devices(32), Bytes(10'000'000'000));
  double bus = 31.0 / 32 * 10e9 / time.duration.value;
  EXPECT_GT(bus, 0.9 * 80e9);
  EXPECT_LE(bus, 80e9 * 1.001);
}

TEST(CollectiveTime, PhasesOfAHierarchyFollowOneAnother) {
  Topology topology = switched({4, 4});
  CollectivePlan plan = CostModel(topology).plan_collective(Collective::AllReduce, first_devices(8));
  auto hierarchical = std::find_if(plan.algorithms().begin(), plan.algorithms().end(),
                                   [](const CollectiveAlgorithm& a) { return a.name == "hierarchical"; });
  ASSERT_NE(hierarchical, plan.algorithms().end());
  ASSERT_EQ(hierarchical->phases.size(), 3);
  EXPECT_THAT(hierarchical->phases[0].seconds_per_byte * 1e9, DoubleNear(0.75 / 100, 1e-9));
  EXPECT_THAT(hierarchical->phases[1].seconds_per_byte * 1e9, DoubleNear(2 * 0.5 / 4 / 10, 1e-9));
  EXPECT_THAT(hierarchical->phases[2].seconds_per_byte * 1e9, DoubleNear(0.75 / 100, 1e-9));
}

TEST(CollectiveTime, DoesNotDependOnTheOrderOfTheGroup) {
  Topology topology = make_topology("dgx1-v100:2");
  CostModel costs(topology);
  for (Collective kind : all_kinds) {
    if (kind == Collective::Send) continue;
    CollectiveTime one = costs.collective_time(kind, devices({1, 2, 7, 9, 12}), Bytes(5'000'000));
    CollectiveTime other = costs.collective_time(kind, devices({1, 12, 9, 7, 2}), Bytes(5'000'000));
    EXPECT_EQ(one.duration, other.duration) << name_of(kind);
    EXPECT_EQ(one.lanes, other.lanes) << name_of(kind);
  }
}

TEST(CollectiveTime, HandlesTenThousandDevices) {
  Topology topology = make_topology("levels:8@100GB/s,1250@10GB/s");
  CostModel costs(topology);
  std::vector<DeviceId> all = first_devices(topology.num_devices());
  ASSERT_EQ(all.size(), 10'000);
  for (Collective kind : all_kinds) {
    if (kind == Collective::Send) continue;
    EXPECT_GT(costs.plan_collective(kind, all).duration_at(Bytes(1'000'000'000)).value, 0) << name_of(kind);
  }
}

TEST(CollectiveTime, RefusesWhatIsNoGroup) {
  Topology topology = switched({4});
  CostModel costs(topology);
  auto ask = [&](Collective kind, std::vector<DeviceId> group, std::int64_t size) {
    return [&costs, kind, group, size] { return costs.collective_time(kind, group, Bytes(size)); };
  };
  EXPECT_THAT(ask(Collective::AllReduce, devices({1}), 1),
              ThrowsMessage<InternalError>(
                  HasSubstr("all-reduce over a group that is not of at least 2 distinct devices")));
  EXPECT_THROW(ask(Collective::AllReduce, devices({1, 2, 1}), 1)(), InternalError);
  EXPECT_THROW(ask(Collective::AllReduce, devices({1, 4}), 1)(), InternalError);
  EXPECT_THROW(ask(Collective::Send, devices({0, 1, 2}), 1)(), InternalError);
  EXPECT_THROW(ask(Collective::AllReduce, devices({0, 1}), -1)(), InternalError);
}

std::vector<DeviceId> random_group(Rng& rng, std::size_t devices, std::size_t most) {
  std::vector<DeviceId> all = first_devices(devices);
  std::size_t n = 2 + rng.below(std::min(devices, most) - 1);
  for (std::size_t i = 0; i < n; ++i) std::swap(all[i], all[i + rng.below(devices - i)]);
  all.resize(n);
  return all;
}

Topology random_topology(Rng& rng) {
  constexpr const char* names[] = {"dgx1-v100", "dgx1-v100:3", "p100-4x4",   "k80-16x4:5",   "dapple-a",
                                   "dapple-c",  "dgx2:2",      "dgx-a100:3", "pcie-v100-4:3"};
  if (rng.below(3) > 0) return make_topology(names[rng.below(std::size(names))]);
  std::vector<std::int32_t> nodes;
  for (std::uint64_t i = 0, n = 1 + rng.below(4); i < n; ++i)
    nodes.push_back(static_cast<std::int32_t>(2 + rng.below(5)));
  return switched(nodes);
}

void check_time(const CollectiveTime& time) {
  double busiest = 0;
  for (std::size_t i = 0; i < time.lanes.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(time.lanes[i - 1].lane, time.lanes[i].lane);
    }
    EXPECT_GE(time.lanes[i].hold.value, 0);
    busiest = std::max(busiest, time.lanes[i].hold.value);
  }
  EXPECT_GT(time.latency.value, 0);
  EXPECT_GE(time.duration.value * (1 + 1e-12), time.latency.value + busiest);
  if (time.algorithm != "hierarchical") {
    EXPECT_THAT(time.duration.value, DoubleNear(time.latency.value + busiest, 1e-9 * time.duration.value));
  }
}

TEST(CollectiveTime, GrowsWithSizeAndKeepsNoLaneBusyForLonger) {
  for_each_seed(60, [](Rng& rng) {
    Topology topology = random_topology(rng);
    CostModel costs(topology);
    Collective kind = all_kinds[rng.below(std::size(all_kinds))];
    CollectivePlan plan = costs.plan_collective(
        kind, random_group(rng, topology.num_devices(), kind == Collective::Send ? 2 : 10));
    Seconds last(0);
    for (std::int64_t size = 0; size < 4'000'000'000; size = 3 * size + 1 + rng.between(0, 100)) {
      CollectiveTime time = plan.at(Bytes(size));
      check_time(time);
      EXPECT_EQ(time.duration, plan.duration_at(Bytes(size)));
      EXPECT_GE(time.duration, last);
      last = time.duration;
    }
  });
}

TEST(CollectiveTime, PutsOnTheLinksWhatTheAlgebraCounts) {
  for_each_seed(30, [](Rng& rng) {
    // One switch: every hop is two lanes.
    Topology topology = switched({9});
    CostModel costs(topology);
    std::vector<DeviceId> group = random_group(rng, 9, 9);
    for (Collective kind : all_kinds) {
      if (kind == Collective::Send) continue;
      CollectivePlan plan = costs.plan_collective(kind, group);
      ASSERT_EQ(plan.algorithms().size(), 1);
      double bytes = 0;
      for (const LaneLoad& load : plan.algorithms()[0].loads) bytes += load.seconds_per_byte * 100e9 / 2;
      auto n = static_cast<std::int64_t>(group.size());
      auto counted = static_cast<double>(bytes_on_links(kind, n, Bytes(n * 1000)));
      EXPECT_THAT(bytes * static_cast<double>(n) * 1000, DoubleNear(counted, 1e-6 * counted))
          << name_of(kind);
    }
  });
}

}  // namespace
}  // namespace pipesim
