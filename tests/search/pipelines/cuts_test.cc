#include "search/pipelines/cuts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "sim/base/errors.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using Set = std::vector<bool>;

// All sets that hold the first layer and, with a layer, all that feed it.
std::set<Set> closed_sets(const LayerGraph& graph) {
  std::set<Set> sets;
  for (std::uint32_t bits = 1; bits < (1U << graph.size()); bits += 2) {
    Set set;
    for (std::size_t v = 0; v < graph.size(); ++v) set.push_back((bits >> v & 1) != 0);
    const auto is_fed = [&](std::int32_t u) { return set[static_cast<std::size_t>(u)]; };
    bool closed = true;
    for (std::size_t v = 0; v < graph.size(); ++v)
      closed &= !set[v] || std::ranges::all_of(graph.inputs(static_cast<std::int32_t>(v)), is_fed);
    if (closed) sets.insert(set);
  }
  return sets;
}

bool is_inside(const Set& a, const Set& b) {
  bool inside = a != b;
  for (std::size_t v = 0; v < a.size(); ++v) inside &= !a[v] || b[v];
  return inside;
}

Bytes crossing(const LayerGraph& graph, const Set& before) {
  Bytes sum;
  for (std::size_t v = 0; v < graph.size(); ++v) {
    const std::span<const std::int32_t> consumers = graph.consumers(static_cast<std::int32_t>(v));
    const auto is_behind = [&](std::int32_t w) { return !before[static_cast<std::size_t>(w)]; };
    const bool read = consumers.empty() || std::ranges::any_of(consumers, is_behind);
    if (before[v] && read) sum += graph[static_cast<std::int32_t>(v)].output;
  }
  return sum;
}

TEST(Cuts, AreAllClosedSetsOfGraphsWithOneSource) {
  std::size_t most = 0, more = 0;
  for_each_seed(200, [&](Rng& rng) {
    const LayerGraph graph =
        random_layers(rng, static_cast<std::int32_t>(rng.between(1, 11)), 1 + rng.below(9));
    const std::vector<Cut> cuts = cuts_of(graph, 10'000).value();
    std::set<Set> sets;
    for (const Cut& cut : cuts) sets.insert(cut.before);
    EXPECT_EQ(sets.size(), cuts.size());
    EXPECT_EQ(sets, closed_sets(graph));
    for (std::size_t j = 0; j < cuts.size(); ++j) {
      std::vector<std::int32_t> inner;
      for (std::size_t i = 0; i < cuts.size(); ++i) {
        if (is_inside(cuts[i].before, cuts[j].before)) inner.push_back(static_cast<std::int32_t>(i));
      }
      EXPECT_EQ(cuts[j].inner, inner);
      Cut sums;
      for (std::size_t v = 0; v < graph.size(); ++v) {
        const Layer& layer = graph[static_cast<std::int32_t>(v)];
        if (!cuts[j].before[v]) continue;
        sums.time += layer.forward + layer.backward;
        sums.outputs += layer.output;
        sums.parameters += layer.parameters;
      }
      EXPECT_NEAR(cuts[j].time.value, sums.time.value, 1e-12);
      EXPECT_EQ(cuts[j].outputs, sums.outputs);
      EXPECT_EQ(cuts[j].parameters, sums.parameters);
      EXPECT_EQ(cuts[j].crossing, crossing(graph, cuts[j].before));
      EXPECT_GE(cuts[j].augmented, cuts[j].crossing);
      more += cuts[j].augmented > cuts[j].crossing ? 1 : 0;
    }
    most = std::max(most, cuts.size());
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(most, 30U);
    EXPECT_GE(more, 30U);
  }
}

TEST(Cuts, OfAnOrderAreItsBeginnings) {
  for_each_seed(50, [](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(1, 30)), 6);
    const std::vector<Cut> cuts = cuts_of_order(graph);
    ASSERT_EQ(cuts.size(), graph.size());
    for (std::size_t j = 0; j < cuts.size(); ++j) {
      Set before(graph.size(), false);
      std::fill_n(before.begin(), j + 1, true);
      EXPECT_EQ(cuts[j].before, before);
      EXPECT_EQ(cuts[j].crossing, crossing(graph, before));
      EXPECT_EQ(cuts[j].inner.size(), j);
    }
  });
}

TEST(Cuts, OfAnOrderCountWhatPipeDreamCounts) {
  std::size_t more = 0;
  for_each_seed(50, [&](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(1, 11)), 4);
    const std::vector<Cut> all = cuts_of(graph, 10'000).value();
    for (const Cut& cut : cuts_of_order(graph)) {
      const auto same = std::ranges::find(all, cut.before, &Cut::before);
      ASSERT_NE(same, all.end());
      EXPECT_EQ(cut.augmented, same->augmented);
      more += cut.augmented > cut.crossing ? 1 : 0;
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(more, 10U);
  }
}

TEST(Cuts, KeepWhatBelongsTogetherOnOneSide) {
  std::size_t fewer = 0;
  for_each_seed(50, [&](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(4, 10)), 2);
    const std::vector<Cut> cuts = cuts_of(graph, 10'000).value();
    std::vector<std::vector<std::int32_t>> together(2);
    for (std::vector<std::int32_t>& layers : together) {
      for (int n = 0; n < 2; ++n) layers.push_back(static_cast<std::int32_t>(rng.below(graph.size())));
    }
    std::set<Set> expected, found;
    for (const Set& set : closed_sets(graph)) {
      const auto apart = [&](const std::vector<std::int32_t>& layers) {
        return set[static_cast<std::size_t>(layers[0])] != set[static_cast<std::size_t>(layers[1])];
      };
      if (std::ranges::none_of(together, apart)) expected.insert(set);
    }
    const std::vector<Cut> around = cuts_around(cuts, together);
    for (const Cut& cut : around) found.insert(cut.before);
    EXPECT_EQ(found, expected);
    fewer += around.size() < cuts.size() ? 1 : 0;
    for (const Cut& cut : around) {
      std::vector<std::int32_t> inner;
      for (std::size_t i = 0; i < around.size(); ++i) {
        if (is_inside(around[i].before, cut.before)) inner.push_back(static_cast<std::int32_t>(i));
      }
      EXPECT_EQ(cut.inner, inner);
    }
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_GT(fewer, 20U);
}

TEST(Cuts, AreGivenUpWhenTheyAreTooMany) {
  std::vector<Layer> layers(22);
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 1; i < 21; ++i) edges.insert(edges.end(), {{0, i}, {i, 21}});
  const LayerGraph wide(std::move(layers), edges);  // any of 20 layers in the middle: over a million
  EXPECT_FALSE(cuts_of(wide, 5'000).has_value());
  EXPECT_EQ(cuts_of_order(wide).size(), 22U);
}

TEST(Cuts, OfTwoGraphsAreRefused) {
  const LayerGraph apart({{"a", {}, {}, {}, {}}, {"b", {}, {}, {}, {}}}, {});
  EXPECT_THAT([&] { cuts_of(apart, 10); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("layer \"b\" has nothing to do with")));
}

}  // namespace
}  // namespace pipesim
