#include "search/pipelines/placements.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::vector<DeviceId> ids(const std::vector<int>& numbers) {
  std::vector<DeviceId> list;
  for (const int n : numbers) list.emplace_back(n);
  return list;
}

TEST(Placements, KnowSymmetries) {
  const Topology nested = make_topology("levels:2@10GB/s,2@5GB/s,2@1GB/s");
  EXPECT_TRUE(is_symmetry(nested, ids({0, 1, 2, 3, 4, 5, 6, 7})));
  EXPECT_TRUE(is_symmetry(nested, ids({1, 0, 2, 3, 4, 5, 6, 7})));
  EXPECT_TRUE(is_symmetry(nested, ids({2, 3, 0, 1, 4, 5, 6, 7})));
  EXPECT_TRUE(is_symmetry(nested, ids({4, 5, 6, 7, 0, 1, 2, 3})));
  EXPECT_FALSE(is_symmetry(nested, ids({4, 5, 2, 3, 0, 1, 6, 7}))) << "a node leaves its neighbour";
  EXPECT_FALSE(is_symmetry(nested, ids({2, 1, 0, 3, 4, 5, 6, 7}))) << "a device leaves its node";
  // NVLinks of the cube mesh are doubled between some devices only.
  EXPECT_FALSE(is_symmetry(make_topology("dgx1-v100"), ids({1, 0, 2, 3, 4, 5, 6, 7})));
}

// By device its group, or −1.
using Assignment = std::vector<int>;

Assignment assignment_of(const std::vector<StageGroup>& groups, std::size_t devices) {
  Assignment group_of(devices, -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const DeviceId d : groups[g]) group_of[d.index()] = static_cast<int>(g);
  }
  return group_of;
}

// Every way to give devices to groups, but one of those that symmetries make the same.
std::set<Assignment> all_by_trying(const Topology& topology, int groups) {
  const std::size_t n = topology.num_devices();
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> symmetries;
  do {
    if (is_symmetry(topology, ids(order))) symmetries.push_back(order);
  } while (std::ranges::next_permutation(order).found);
  std::set<Assignment> found;
  Assignment group_of(n, -1);
  for (std::size_t i = 0; i < n;) {
    std::set<int> used(group_of.begin(), group_of.end());
    used.erase(-1);
    if (static_cast<int>(used.size()) == groups) {
      Assignment first = group_of;
      for (const std::vector<int>& symmetry : symmetries) {
        Assignment same(n);
        for (std::size_t d = 0; d < n; ++d) same[static_cast<std::size_t>(symmetry[d])] = group_of[d];
        first = std::max(first, same);
      }
      found.insert(first);
    }
    for (i = 0; i < n && ++group_of[i] == groups; ++i) group_of[i] = -1;
  }
  return found;
}

TEST(Placements, AreAllThatNoSymmetryMakesTheSame) {
  for (const char* name : {"levels:4@10GB/s", "levels:2@10GB/s,2@1GB/s", "levels:3@10GB/s,2@1GB/s",
                           "levels:1@10GB/s,3@1GB/s", "levels:1@1GB/s"}) {
    const Topology topology = make_topology(name);
    const Placements placements(topology);
    for (int groups = 1; groups <= 4; ++groups) {
      const std::set<Assignment> expected = all_by_trying(topology, groups);
      const std::vector<std::vector<StageGroup>> listed = placements.list(groups);
      EXPECT_EQ(listed.size(), expected.size()) << name << ", groups " << groups;
      EXPECT_EQ(placements.count(groups), static_cast<double>(expected.size())) << name;
      std::vector<int> order(topology.num_devices());
      std::iota(order.begin(), order.end(), 0);
      std::set<Assignment> met;
      for (const std::vector<StageGroup>& groups_of_one : listed) {
        for (const StageGroup& group : groups_of_one) EXPECT_TRUE(std::ranges::is_sorted(group));
        met.insert(assignment_of(groups_of_one, topology.num_devices()));
      }
      EXPECT_EQ(met.size(), listed.size());
    }
  }
}

TEST(Placements, GiveFirstGroupsFirstDevices) {
  const Placements placements(make_topology("levels:2@10GB/s,2@1GB/s"));
  using Groups = std::vector<StageGroup>;
  EXPECT_THAT(placements.list(2), testing::Contains(Groups{ids({0, 1}), ids({2, 3})}));
  EXPECT_THAT(placements.list(2), testing::Not(testing::Contains(Groups{ids({2, 3}), ids({0, 1})})));
  EXPECT_THAT(placements.list(1),
              testing::ElementsAre(Groups{ids({0, 1, 2, 3})}, Groups{ids({0, 1, 2})}, Groups{ids({0, 1})},
                                   Groups{ids({0, 2})}, Groups{ids({0})}));
}

}  // namespace
}  // namespace pipesim
