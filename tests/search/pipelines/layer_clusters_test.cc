#include "search/pipelines/layer_clusters.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using ClusterFigures = std::tuple<std::int64_t, std::int64_t>;  // largest and sum of what runs read

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& cluster_of) {
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < cluster_of.size(); ++i) {
    if (i == 0 || cluster_of[i] != cluster_of[i - 1]) starts.push_back(static_cast<std::int32_t>(i));
  }
  starts.push_back(static_cast<std::int32_t>(cluster_of.size()));
  return starts;
}

ClusterFigures figures_of(const LayerGraph& graph, const std::vector<std::int32_t>& starts) {
  std::int64_t largest = 0, sum = 0;
  for (std::size_t c = 0; c + 1 < starts.size(); ++c) {
    std::set<std::int32_t> read;
    for (std::int32_t j = starts[c]; j < starts[c + 1]; ++j) {
      for (const std::int32_t i : graph.inputs(j)) {
        if (i < starts[c]) read.insert(i);
      }
    }
    std::int64_t bytes = 0;
    for (const std::int32_t i : read) bytes += graph[i].output.value;
    EXPECT_EQ(read_from_before(graph, starts[c], starts[c + 1]).value, bytes);
    largest = std::max(largest, bytes);
    sum += bytes;
  }
  return {largest, sum};
}

bool keeps_to(const LayerGraph& graph, const std::vector<std::int32_t>& starts, double limit) {
  for (std::size_t c = 0; c + 1 < starts.size(); ++c) {
    double time = 0;
    for (std::int32_t j = starts[c]; j < starts[c + 1]; ++j)
      time += (graph[j].forward + graph[j].backward).value;
    if (starts[c + 1] - starts[c] > 1 && time >= limit) return false;
  }
  return true;
}

TEST(LayerClusters, PassAsLittleAsAnyThatKeepTheTolerance) {
  for_each_seed(80, [](Rng& rng) {
    const auto size = static_cast<std::int32_t>(rng.between(1, 9));
    const LayerGraph graph = random_layers(rng, size, 3);
    const auto clusters = static_cast<std::int32_t>(rng.between(1, size));
    double all = 0;
    for (std::int32_t i = 0; i < size; ++i) all += (graph[i].forward + graph[i].backward).value;
    const std::vector<std::int32_t> found = starts_of(cluster_layers(graph, clusters));
    ASSERT_EQ(found.size(), static_cast<std::size_t>(clusters) + 1);
    for (double tolerance = 0.5;; tolerance *= 2) {
      const double limit = all / clusters * (1 + tolerance);
      ClusterFigures best{INT64_MAX, INT64_MAX};
      std::vector<std::int32_t> starts{0};
      const std::function<void()> extend = [&] {
        if (static_cast<std::int32_t>(starts.size()) == clusters) {
          std::vector<std::int32_t> whole = starts;
          whole.push_back(size);
          if (keeps_to(graph, whole, limit)) best = std::min(best, figures_of(graph, whole));
          return;
        }
        for (std::int32_t next = starts.back() + 1; next < size; ++next) {
          starts.push_back(next);
          extend();
          starts.pop_back();
        }
      };
      extend();
      if (best == ClusterFigures{INT64_MAX, INT64_MAX}) continue;
      EXPECT_TRUE(keeps_to(graph, found, limit));
      EXPECT_EQ(figures_of(graph, found), best);
      break;
    }
  });
}

// Layers that must stay together are one, however long they take: the clusters are those of a graph in which
// they are merged.
TEST(LayerClusters, PartNoLayersOfAList) {
  for_each_seed(40, [](Rng& rng) {
    const auto size = static_cast<std::int32_t>(rng.between(2, 9));
    const LayerGraph chain = random_chain(rng, size);
    const auto first = static_cast<std::int32_t>(rng.between(0, size - 2));
    const auto last = static_cast<std::int32_t>(rng.between(first + 1, size - 1));
    std::vector<std::int32_t> merged;
    for (std::int32_t i = 0; i < size; ++i)
      merged.push_back(i <= first ? i : std::max(first, i - (last - first)));
    const auto clusters = static_cast<std::int32_t>(rng.between(1, size));
    const std::vector<std::int32_t> found = cluster_layers(chain, clusters, {{first, last}});
    const std::vector<std::int32_t> expected = cluster_layers(clustered(chain, merged), clusters);
    for (std::int32_t i = 0; i < size; ++i)
      EXPECT_EQ(found[static_cast<std::size_t>(i)],
                expected[static_cast<std::size_t>(merged[static_cast<std::size_t>(i)])])
          << i;
  });
}

TEST(LayerClusters, AreAlikeWhereNothingElseDecides) {
  std::vector<Layer> layers(6, {"", Seconds(1), Seconds(2), Bytes(10), Bytes(0)});
  const LayerGraph chain(layers, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  EXPECT_THAT(cluster_layers(chain, 3), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(cluster_layers(chain, 9), ElementsAre(0, 1, 2, 3, 4, 5));
  for (Layer& layer : layers) layer.forward = layer.backward = Seconds(0);
  EXPECT_EQ(cluster_layers(LayerGraph(layers, {}), 2).back(), 1);
  EXPECT_THROW(cluster_layers(chain, 0), InternalError);
  EXPECT_THROW(cluster_layers(chain, 2, {}, 0), InternalError);
}

}  // namespace
}  // namespace pipesim
