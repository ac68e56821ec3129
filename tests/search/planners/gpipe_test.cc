#include "search/planners/gpipe.h"

#include <gmock/gmock.h>

#include <algorithm>

#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "models/zoo/zoo.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

// The largest sum of a run, then the sum of squares, of the best cut of costs from `first` on.
std::pair<double, double> best_by_trying(const std::vector<double>& costs, std::size_t first,
                                         std::int32_t parts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (parts == 1) {
    const double sum = std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first), costs.end(), 0.0);
    return {sum, sum * sum};
  }
  std::pair<double, double> best{kInfinity, kInfinity};
  double sum = 0;
  for (std::size_t end = first + 1; end + static_cast<std::size_t>(parts) - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    auto [largest, squares] = best_by_trying(costs, end, parts - 1);
    best = std::min(best, {std::max(largest, sum), squares + sum * sum});
  }
  return best;
}

// Whole numbers, so that sums are exact.
TEST(BalancedParts, HaveTheLeastLargestSum) {
  for_each_seed(200, [](Rng& rng) {
    std::vector<double> costs(1 + rng.below(9));
    for (double& cost : costs) cost = static_cast<double>(rng.below(8));
    const auto parts = static_cast<std::int32_t>(1 + rng.below(costs.size()));
    const std::vector<std::int32_t> part_of = balanced_parts(costs, parts);
    std::vector<double> sums(static_cast<std::size_t>(parts), 0.0);
    std::vector<int> counts(sums.size(), 0);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::int32_t before = i > 0 ? part_of[i - 1] : 0;
      EXPECT_TRUE(part_of[i] == before || part_of[i] == before + 1);
      sums[static_cast<std::size_t>(part_of[i])] += costs[i];
      ++counts[static_cast<std::size_t>(part_of[i])];
    }
    EXPECT_THAT(counts, testing::Each(testing::Ge(1)));
    const double largest = *std::max_element(sums.begin(), sums.end());
    EXPECT_EQ(largest, best_by_trying(costs, 0, parts).first);
  });
}

TEST(BalancedParts, PreferEvenOnes) {
  EXPECT_THAT(balanced_parts({4, 1, 1, 1, 1}, 3), ElementsAre(0, 1, 1, 2, 2));
  EXPECT_EQ(refusal([] { balanced_parts({1, 2}, 3); }), "3 stages for 2 layers, allowed: 1 to 2");
}

class Gpipe : public testing::TestWithParam<const char*> {};

TEST_P(Gpipe, MakesLegalPipelines) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  for (const std::int32_t groups : {1, 2, 4, 8}) {
    for (const std::int32_t chunks : {1, 2}) {
      const PipelineDemand demand{groups * chunks, chunks, chunks > 1 ? "interleaved" : "1f1b"};
      const PipelinedStrategy made = gpipe_strategy(graph, costs, demand);
      PlanOptions options;
      options.microbatches = 8;
      options.pipeline = made.pipeline;
      EXPECT_EQ(illegal(graph, made.strategy, options, topology).value_or("legal"), "legal");
      EXPECT_EQ(made.pipeline.num_stages(), groups * chunks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Gpipe,
                         testing::Values("inception-v3:batch=32", "resnet50:batch=32", "nmt:batch=32,steps=3",
                                         "gpt:batch=8,layers=4", "bert-base:batch=8"),
                         ModelWord());

TEST(GpipeStrategy, RefusesWhatCanNotBe) {
  const OperatorGraph graph = make_zoo_model("lenet");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  EXPECT_EQ(refusal([&] {
              gpipe_strategy(graph, costs, {5, 1, "1f1b"});
            }),
            "5 stages for 4 devices, allowed: up to 4");
  EXPECT_EQ(refusal([&] {
              gpipe_strategy(graph, costs, {3, 2, "interleaved"});
            }),
            "3 stages do not divide into groups of 2 chunks");
}

}  // namespace
}  // namespace pipesim
