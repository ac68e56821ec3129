#include "costmodel/links/protocols.h"

#include <gmock/gmock.h>

#include <cmath>

#include "costmodel/links/nccl.h"
#include "tests/costmodel/samples.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double picosecond = 1e-12;

/// Links of 100 GB/s, a step 1 µs, memory of 1 TB/s, a call 5 µs.
Topology with_protocols(std::int32_t devices, bool in_switch) {
  DeviceKind kind = plain_kind();
  kind.collectives = CollectiveTraits{Seconds(5e-6), in_switch};
  return switched({devices}, std::move(kind));
}

std::vector<std::string_view> names_of(const CollectivePlan& plan) {
  std::vector<std::string_view> names;
  for (const CollectiveAlgorithm& algorithm : plan.algorithms()) names.push_back(algorithm.name);
  return names;
}

// Four devices all-reduce in six steps: three halves of the size on every hop, and a quarter of it copied
// at 0.28 of 1 TB/s. By NCCL's model LL takes 6.6 + 6 · 0.6 µs and 0.375 of the bandwidth, LL128 14 + 6 · 1.9
// and 0.92, Simple 8.4 + 6 · 3.4 and all of it.
TEST(Protocols, ChangeWhereNcclsModelSays) {
  const Topology topology = with_protocols(4, false);
  const CollectivePlan plan = CostModel(topology).plan_collective(Collective::AllReduce, first_devices(4));
  ASSERT_THAT(names_of(plan), ElementsAre("ring LL", "ring LL128", "ring Simple"));
  const double hop = 1.5 / 100e9;
  const double to_ll128 = (25.4e-6 - 10.2e-6) / (hop / 0.375 - hop / 0.92);
  const double to_simple = (28.8e-6 - 25.4e-6) / (hop / 0.92 - hop);
  EXPECT_EQ(plan.algorithms()[0].most, plan.algorithms()[1].least);
  EXPECT_NEAR(static_cast<double>(plan.algorithms()[1].least.value), to_ll128, 1);
  EXPECT_NEAR(static_cast<double>(plan.algorithms()[2].least.value), to_simple, 1);
  EXPECT_EQ(plan.algorithms()[2].most, any_size);

  const double own = 0.25 / (0.28 * 1e12);
  const CollectiveTime small = plan.at(Bytes(100'000));
  EXPECT_EQ(small.algorithm, "ring LL");
  EXPECT_THAT(small.duration.value, DoubleNear(5e-6 + 6e-6 + 1e5 * (hop / 0.5 + 5 * own), picosecond));
  const CollectiveTime middle = plan.at(Bytes(1'000'000));
  EXPECT_EQ(middle.algorithm, "ring LL128");
  EXPECT_THAT(middle.duration.value, DoubleNear(10e-6 + 9e-6 + 1e6 * (hop / 0.76 + own), picosecond));
  const CollectiveTime large = plan.at(Bytes(1'000'000'000));
  const double streamed = 1e9 * (hop + own);
  EXPECT_EQ(large.algorithm, "ring Simple");
  EXPECT_THAT(large.duration.value,
              DoubleNear(12.5e-6 + 21e-6 + streamed + 2 * std::sqrt(0.05 * 5e-6 * streamed), picosecond));
}

// Two devices gather in one step, for which Simple costs NCCL's model less than LL128.
TEST(Protocols, SkipThoseThatAreNeverTheFastest) {
  const Topology topology = with_protocols(2, false);
  EXPECT_THAT(names_of(CostModel(topology).plan_collective(Collective::AllGather, first_devices(2))),
              ElementsAre("ring LL", "ring Simple"));
}

TEST(Protocols, LetASwitchAddForAllReducesOnly) {
  const Topology topology = with_protocols(8, true);
  const CostModel costs(topology);
  const CollectivePlan plan = costs.plan_collective(Collective::AllReduce, first_devices(8));
  ASSERT_THAT(names_of(plan), ElementsAre("ring LL", "NVLS"));
  const double streamed = 1e9 / (0.733 * 100e9);
  const CollectiveTime time = plan.at(Bytes(1'000'000'000));
  EXPECT_THAT(time.duration.value,
              DoubleNear(20e-6 + streamed + 2 * std::sqrt(0.6 * 5e-6 * streamed), picosecond));
  ASSERT_EQ(time.lanes.size(), 16);
  EXPECT_THAT(time.lanes[0].hold.value, DoubleNear((time.duration - time.latency).value, picosecond));
  // Each sends its buffer and the sum of its part.
  for (const LaneLoad& load : plan.algorithms()[1].loads)
    EXPECT_THAT(load.seconds_per_byte * 100e9, DoubleNear(1.125, 1e-9));
  EXPECT_THAT(names_of(costs.plan_collective(Collective::ReduceScatter, first_devices(8))),
              testing::Not(testing::Contains("NVLS")));
  // Four have half the rate, less than that of their ring.
  EXPECT_THAT(names_of(costs.plan_collective(Collective::AllReduce, first_devices(4))),
              testing::Not(testing::Contains("NVLS")));
}

TEST(Protocols, LetAnAllToAllCopyItsOwnPart) {
  const Topology topology = with_protocols(4, false);
  const CollectiveTime time =
      CostModel(topology).collective_time(Collective::AllToAll, first_devices(4), Bytes(400'000'000));
  const double streamed = 0.75 * 1e8 / 100e9 + 0.25 * 1e8 / (0.28 * 1e12);
  EXPECT_THAT(time.latency.value, DoubleNear(1.25 * 5e-6 + 1e-6 + 3 * nccl::peer_overhead, picosecond));
  EXPECT_THAT(time.duration.value,
              DoubleNear(time.latency.value + streamed + 2 * std::sqrt(0.4 * 5e-6 * streamed), picosecond));
}

TEST(Protocols, HoldForGroupsInsideANodeOnly) {
  DeviceKind kind = plain_kind();
  kind.collectives = CollectiveTraits{Seconds(5e-6)};
  const Topology topology = switched({4, 4}, std::move(kind));
  const CollectivePlan plan = CostModel(topology).plan_collective(Collective::AllReduce, first_devices(8));
  for (const CollectiveAlgorithm& algorithm : plan.algorithms())
    EXPECT_EQ(algorithm.most, any_size) << algorithm.name;
}

// Where NCCL leaves a protocol late, more bytes would take less time than fewer.
TEST(Protocols, NeverLetTimesFall) {
  for (const char* name : {"dgx1-v100", "dgx-a100", "dgx-h100", "hgx-h800", "dgx-b200", "gb200-nvl72",
                           "dgx-b300", "gb300-nvl72"}) {
    const Topology topology = make_topology(name);
    const CostModel costs(topology);
    for (std::size_t n = 2; n <= std::min<std::size_t>(topology.num_devices(), 9); ++n) {
      for (const Collective kind : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
        const CollectivePlan plan = costs.plan_collective(kind, first_devices(n));
        Seconds last(0);
        for (double size = 1; size < 4e9; size *= 1.1) {
          const CollectiveTime time = plan.at(Bytes(static_cast<std::int64_t>(size)));
          EXPECT_GE(time.duration, last) << name << ", " << n << " devices, " << size;
          for (const LaneHold& lane : time.lanes)
            EXPECT_LE(lane.hold.value, (time.duration - time.latency).value * (1 + 1e-12));
          last = time.duration;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
