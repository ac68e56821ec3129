#include "search/pipelines/grouped_layers.h"

#include <gmock/gmock.h>

#include <set>

#include "search/pipelines/cuts.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

std::set<std::vector<bool>> cuts_of_layers(const GroupedLayers& groups) {
  std::set<std::vector<bool>> sets;
  const std::vector<Cut> cuts = cuts_of(groups.graph, 10'000).value();
  for (const Cut& cut : cuts) {
    std::vector<bool> set;
    for (const std::int32_t group : groups.group_of)
      set.push_back(cut.before[static_cast<std::size_t>(group)]);
    sets.insert(std::move(set));
  }
  return sets;
}

TEST(GroupedLayers, KeptTogetherHaveTheCutsThatPartNone) {
  std::size_t fewer = 0;
  for_each_seed(100, [&](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(4, 11)), 4);
    std::vector<std::vector<std::int32_t>> together(rng.below(3));
    for (std::vector<std::int32_t>& list : together) {
      for (int n = 0; n < 2; ++n) list.push_back(static_cast<std::int32_t>(rng.below(graph.size())));
    }
    std::set<std::vector<bool>> expected;
    const std::vector<Cut> all = cuts_of(graph, 10'000).value();
    for (const Cut& cut : cuts_around(all, together)) expected.insert(cut.before);
    EXPECT_EQ(cuts_of_layers(kept_together(graph, together)), expected);
    fewer += expected.size() < all.size() ? 1 : 0;
  });
  if (!sanitized && std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(fewer, 20U);
  }
}

Layer of(double forward_s, std::int64_t output) {
  return {"", Seconds(forward_s), Seconds(1), Bytes(output), Bytes(3)};
}

// A fork (1) into a line of three (2, 3, 4), a line that forks again (5, 6) to 7 and to the end, and an edge
// to the join (8).
TEST(GroupedLayers, CompressedBranchesAreLines) {
  const LayerGraph graph(
      {of(1, 10), of(1, 11), of(1, 12), of(1, 13), of(1, 14), of(1, 15), of(1, 16), of(1, 17), of(1, 18),
       of(1, 19)},
      {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 8}, {1, 5}, {5, 6}, {6, 7}, {6, 8}, {7, 8}, {1, 8}, {8, 9}});
  const GroupedLayers groups = compressed_branches(graph);
  EXPECT_THAT(groups.group_of, ElementsAre(0, 1, 2, 2, 2, 3, 3, 4, 5, 6));
  EXPECT_EQ(groups.graph[2].forward, Seconds(3));
  EXPECT_EQ(groups.graph[2].parameters, Bytes(9));
  EXPECT_EQ(groups.graph[2].output, Bytes(14));
  EXPECT_THAT(groups.graph.consumers(3), ElementsAre(4, 5));
  const GroupedLayers twice = grouped(groups, kept_together(groups.graph, {{2, 5}}));
  EXPECT_THAT(twice.group_of, ElementsAre(0, 1, 4, 4, 4, 2, 2, 3, 4, 5));
}

// Groups are closed: what lies between members belongs to them.
TEST(GroupedLayers, WhatLiesBetweenJoins) {
  const LayerGraph chain({of(1, 1), of(1, 2), of(1, 3), of(1, 4), of(1, 5)},
                         {{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  const GroupedLayers groups = kept_together(chain, {{1, 3}});
  EXPECT_THAT(groups.group_of, ElementsAre(0, 1, 1, 1, 2));
  EXPECT_EQ(groups.graph[1].output, Bytes(4));
}

}  // namespace
}  // namespace pipesim
