#include "search/planners/pipedream_layers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

const PipeDreamOptions kRepaired = [] {
  PipeDreamOptions options;
  options.repaired = true;
  options.activation_compression = 1;
  return options;
}();

// Lines of layers between one that feeds all of them and one that all feed.
LayerGraph lines(Rng& rng, std::int32_t count, std::int32_t length) {
  const LayerGraph any = random_layers(rng, count * length + 2, 100);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t l = 0; l < std::ssize(any); ++l) layers.push_back(any[l]);
  const std::int32_t last = count * length + 1;
  for (std::int32_t line = 0; line < count; ++line) {
    const std::int32_t first = 1 + line * length;
    edges.emplace_back(0, first);
    for (std::int32_t l = first + 1; l < first + length; ++l) edges.emplace_back(l - 1, l);
    edges.emplace_back(first + length - 1, last);
  }
  return {std::move(layers), edges};
}

std::vector<MachineLevel> random_levels(Rng& rng) {
  std::vector<MachineLevel> levels{{rng.between(2, 4), BytesPerSecond(2e9)}};
  if (rng.below(2) == 0) levels.push_back({rng.between(2, 3), BytesPerSecond(0.5e9)});
  return levels;
}

TEST(PipeDreamOfLayers, IsTheBestOfAllCutsWhereTheyAreFew) {
  for_each_seed(40, [](Rng& rng) {
    const LayerGraph layers = random_layers(rng, static_cast<std::int32_t>(rng.between(1, 10)), 4);
    const std::vector<MachineLevel> levels = random_levels(rng);
    std::vector<std::vector<std::int32_t>> together(rng.below(2));
    for (auto& list : together)
      list = {static_cast<std::int32_t>(rng.below(layers.size())),
              static_cast<std::int32_t>(rng.below(layers.size()))};
    const std::vector<Cut> cuts = cuts_around(cuts_of(layers, 10'000).value(), together);
    const PipeDreamPlan best = pipedream(cuts, levels, kRepaired).value();
    const PipeDreamOfLayers made = pipedream_of_layers(layers, together, levels, kRepaired);
    EXPECT_EQ(made.plan->period, best.period);
    EXPECT_EQ(made.plan->stages, best.stages);
    EXPECT_EQ(made.cuts, cuts.size());
    EXPECT_TRUE(made.all);
    EXPECT_EQ(made.chosen, "");
  });
}

// These graphs have 6,563 cuts. The search does not list more than 3,000, so it uses a selection. Its result
// is compared with that of all cuts.
TEST(PipeDreamOfLayers, LosesLittleOnWideGraphs) {
  int same = 0, better_than_one_order = 0;
  const int seeds = 6;
  for_each_seed(seeds, [&](Rng& rng) {
    const LayerGraph layers = lines(rng, 4, 8);
    const std::vector<Cut> cuts = cuts_of(layers, 10'000).value();
    EXPECT_EQ(cuts.size(), 6'562U);
    const std::vector<MachineLevel> levels{{rng.between(2, 6), BytesPerSecond(1e9)}};
    const Seconds best = pipedream(cuts, levels, kRepaired)->period;
    const Seconds one_order = pipedream(cuts_of_order(layers), levels, kRepaired)->period;
    const PipeDreamOfLayers made = pipedream_of_layers(layers, {}, levels, kRepaired);
    EXPECT_FALSE(made.all);
    EXPECT_THAT(made.chosen,
                HasSubstr("the model can be cut in more than 3000 ways, with branches compressed in "
                          "17; "));
    EXPECT_GE(made.plan->period.value, best.value);
    EXPECT_LE(made.plan->period.value, one_order.value);
    EXPECT_LE(made.plan->period.value, 1.02 * best.value);
    same += made.plan->period == best ? 1 : 0;
    better_than_one_order += made.plan->period < one_order ? 1 : 0;
  });
  if (!sanitized && std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(same, seeds / 2);
    EXPECT_GE(better_than_one_order, seeds / 2);
  }
}

// Each round looks at about 60 of up to 600 cuts.
TEST(PipeDreamOfLayers, LosesLittleByLookingAtSomeCuts) {
  int same = 0;
  for_each_seed(40, [&](Rng& rng) {
    const LayerGraph layers = random_layers(rng, static_cast<std::int32_t>(rng.between(10, 16)), 6);
    const std::vector<MachineLevel> levels = random_levels(rng);
    const std::optional<std::vector<Cut>> cuts = cuts_of(layers, 600);
    if (!cuts) return;
    const Seconds best = pipedream(*cuts, levels, kRepaired)->period;
    PipeDreamEffort little;
    little.most_steps = 0;
    little.most_round_cuts = 60;
    const PipeDreamOfLayers made = pipedream_of_layers(layers, {}, levels, kRepaired, little);
    EXPECT_FALSE(made.all);
    EXPECT_GE(made.plan->period.value, best.value);
    EXPECT_LE(made.plan->period.value, 1.5 * best.value);
    same += made.plan->period == best ? 1 : 0;
    std::vector<int> stages_of(layers.size(), 0);
    for (const PipelineStage& stage : made.plan->stages) {
      for (const std::int32_t l : stage.layers) ++stages_of[static_cast<std::size_t>(l)];
    }
    EXPECT_THAT(stages_of, testing::Each(1));
  });
  if (!sanitized && std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(same, 15);
  }
}

// Twelve blocks of six lines each, on two levels: 7⁶ cuts a block.
TEST(PipeDreamOfLayers, TakesFewStepsWhateverTheModel) {
  Rng rng(1);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (int block = 0; block < 12; ++block) {
    const LayerGraph part = lines(rng, 6, 6);
    const auto first = static_cast<std::int32_t>(layers.size());
    if (block > 0) edges.emplace_back(first - 1, first);
    for (std::int32_t l = 0; l < std::ssize(part); ++l) {
      layers.push_back(part[l]);
      for (const std::int32_t reader : part.consumers(l)) edges.emplace_back(first + l, first + reader);
    }
  }
  const LayerGraph graph(std::move(layers), edges);
  const std::vector<MachineLevel> levels{{8, BytesPerSecond(2e9)}, {4, BytesPerSecond(0.5e9)}};
  const PipeDreamOfLayers made = pipedream_of_layers(graph, {}, levels, kRepaired);
  ASSERT_TRUE(made.plan.has_value());
  const PipeDreamEffort effort;
  EXPECT_LE(made.steps, 1.5 * effort.most_rounds * effort.most_round_steps);
  Seconds all;
  for (std::int32_t l = 0; l < std::ssize(graph); ++l) all += graph[l].forward + graph[l].backward;
  EXPECT_GE(made.plan->period.value, all.value / 32);
  EXPECT_LE(made.plan->period.value, 3 * all.value / 32);
}

TEST(PipeDreamOfLayers, CanBeStopped) {
  Rng rng(1);
  const LayerGraph layers = lines(rng, 4, 8);
  const std::vector<MachineLevel> levels{{4, BytesPerSecond(1e9)}};
  std::int64_t asked = 0;
  const auto until = [&](std::int64_t most) {
    asked = 0;
    const Deadline deadline(std::numeric_limits<double>::infinity(), {},
                            [&asked, most] { return ++asked > most; });
    const KeepTo keep(deadline);
    return pipedream_of_layers(layers, {}, levels, kRepaired);
  };
  EXPECT_THROW(until(0), OutOfTime);
  const PipeDreamOfLayers whole = until(1'000'000);
  const std::int64_t all_asked = asked;
  EXPECT_GT(all_asked, 100);
  const PipeDreamOfLayers part = until(all_asked - 1);
  ASSERT_TRUE(part.plan.has_value());
  EXPECT_EQ(part.plan->period, whole.plan->period);  // its last round found nothing better
}

TEST(PipeDreamSteps, CountWaysToEndAPipeline) {
  Rng rng(1);
  const std::vector<Cut> cuts = cuts_of_order(random_chain(rng, 10));
  EXPECT_EQ(pipedream_steps(cuts, std::vector<MachineLevel>{{4, {}}}), 55 * 7);
  EXPECT_EQ(pipedream_steps(cuts, std::vector<MachineLevel>{{4, {}}, {2, {}}}), 165 * 7 + 55 * 2);
}

}  // namespace
}  // namespace pipesim
