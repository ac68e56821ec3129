#include "search/recipe_planner/measuring/distinct_groups.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Devices = std::vector<DeviceId>;

void add_group(std::int64_t group, std::int64_t groups, const Topology& topology, Devices& devices) {
  const std::size_t size = topology.num_devices() / static_cast<std::size_t>(groups);
  for (std::size_t i = 0; i < size; ++i) devices.emplace_back(static_cast<std::size_t>(group) * size + i);
}

// Kinds, and the routes between all pairs of the devices, with lanes numbered as they are met.
std::vector<double> routes_between(const Devices& devices, const Topology& topology) {
  std::vector<double> all;
  std::map<LaneId, double> lanes;
  for (const DeviceId from : devices) {
    all.push_back(topology.device(from).kind);
    for (const DeviceId to : devices) {
      if (from == to) continue;
      const Route route = topology.route(from, to);
      all.push_back(route.latency.value);
      for (const LaneId lane : route.lanes) {
        all.push_back(lanes.try_emplace(lane, static_cast<double>(lanes.size())).first->second);
        all.push_back(topology.lane_bandwidth(lane).value);
      }
    }
  }
  return all;
}

// Whether each group, or pair of groups, is a copy of one of the distinct.
void expect_all_known(const std::vector<std::int64_t>& distinct, std::int64_t groups, bool pairs,
                      const Topology& topology) {
  const auto routes_of = [&](std::int64_t group) {
    Devices devices;
    add_group(group, groups, topology, devices);
    if (pairs) add_group(groups - 1 - group, groups, topology, devices);
    return routes_between(devices, topology);
  };
  std::vector<std::vector<double>> known;
  for (const std::int64_t group : distinct) known.push_back(routes_of(group));
  for (std::int64_t group = 0; group < groups; ++group)
    EXPECT_THAT(known, testing::Contains(routes_of(group)))
        << topology.name() << ": group " << group << " of " << groups << (pairs ? ", in pairs" : "");
}

TEST(DistinctGroups, EveryGroupIsACopyOfOne) {
  for (const char* preset :
       {"dgx-h100:8", "dgx1-v100", "p100-4x4", "levels:4@10GB/s,2@1GB/s", "dgx-a100:3"}) {
    const Topology topology = make_topology(preset);
    for (const std::int64_t groups : {1, 2, 3, 4, 6, 8, 16}) {
      if (topology.num_devices() % static_cast<std::size_t>(groups) != 0) continue;
      expect_all_known(distinct_groups(groups, topology), groups, false, topology);
      if (groups % 2 == 0) expect_all_known(distinct_pairs(groups, topology), groups, true, topology);
    }
  }
}

TEST(DistinctGroups, NeighboursOfAClassAreCopies) {
  for (const char* preset :
       {"dgx-h100:8", "dgx1-v100", "p100-4x4", "levels:4@10GB/s,2@1GB/s", "dgx-a100:3"}) {
    const Topology topology = make_topology(preset);
    for (const auto& [groups, apart] : {std::pair(2, 1), {4, 1}, {4, 2}, {8, 1}, {8, 2}, {8, 4}, {16, 4}}) {
      if (topology.num_devices() % static_cast<std::size_t>(groups) != 0) continue;
      const NeighbourGroups made = neighbour_groups(groups, apart, topology);
      ASSERT_EQ(std::ssize(made.class_of), groups);
      const auto routes_of = [&, groups = groups, apart = apart](std::int64_t first) {
        Devices devices;
        add_group(first, groups, topology, devices);
        add_group((first + apart) % groups, groups, topology, devices);
        return routes_between(devices, topology);
      };
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t like = made.distinct[made.class_of[static_cast<std::size_t>(g)]];
        EXPECT_EQ(routes_of(g), routes_of(like)) << preset << ": " << g << " is as " << like;
      }
    }
  }
}

TEST(DistinctGroups, AMixedClusterHasMore) {
  TopologyParts parts = make_topology("dgx-h100:4").parts();
  parts.kinds.push_back(parts.kinds.front());
  parts.kinds.back().name = "another";
  for (std::size_t d = 24; d < 32; ++d) parts.devices[d].kind = 1;  // the last node
  const Topology topology(parts);
  EXPECT_THAT(distinct_groups(4, topology), testing::ElementsAre(0, 3));
  EXPECT_THAT(distinct_groups(2, topology), testing::ElementsAre(0, 1));
  EXPECT_THAT(distinct_groups(1, topology), testing::ElementsAre(0));
  EXPECT_THAT(distinct_pairs(4, topology), testing::ElementsAre(0, 1, 3));
}

// Groups of whole nodes are all alike, whatever their number. Groups of half a node have two kinds of
// neighbours.
TEST(DistinctGroups, OfOneKindOfNodesThereIsOne) {
  const Topology topology = make_topology("dgx-h100:1024");
  EXPECT_THAT(distinct_groups(2, topology), testing::ElementsAre(0));
  EXPECT_THAT(distinct_groups(64, topology), testing::ElementsAre(0));
  EXPECT_THAT(distinct_pairs(64, topology), testing::ElementsAre(0));
  EXPECT_THAT(neighbour_groups(64, 1, topology).distinct, testing::ElementsAre(0));
  EXPECT_THAT(neighbour_groups(8192 / 4, 1, topology).distinct, testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace pipesim
