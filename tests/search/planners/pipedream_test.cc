#include "search/planners/pipedream.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/base/errors.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

// Every pipeline of a chain on one level, by its definition.
double best_by_trying(const std::vector<Cut>& cuts, const MachineLevel& level, const PipeDreamOptions& o) {
  const auto n = static_cast<std::int64_t>(cuts.size());
  const auto machines = level.machines;
  const auto sum = [&](auto member, std::int64_t from, std::int64_t to) {  // of layers from … to
    const auto value = [&](std::int64_t j) {
      return j < 0 ? 0.0 : static_cast<double>((cuts[static_cast<std::size_t>(j)].*member).value);
    };
    return value(to) - value(from - 1);
  };
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::int64_t, std::int64_t, double)> extend =
      [&](std::int64_t from, std::int64_t used, double slowest) {
        if (from == n) {
          if (used == machines || o.fewer_machines) best = std::min(best, slowest);
          return;
        }
        for (std::int64_t to = from; to < n; ++to) {
          for (std::int64_t m = 1; m <= (o.straight ? 1 : machines - used); ++m) {
            if (used + m > machines) break;
            const double parameters = sum(&Cut::parameters, from, to);
            double stage = sum(&Cut::time, from, to) + o.synchronised * 4.0 * static_cast<double>(m - 1) *
                                                           parameters /
                                                           (static_cast<double>(m) * level.bandwidth.value);
            stage /= static_cast<double>(m);
            if (o.activation_compression && (from > 0 || o.repaired)) {
              for (const std::int64_t cut : {from - 1, to}) {
                if (cut < 0 || cut + 1 == n) continue;
                const Cut& c = cuts[static_cast<std::size_t>(cut)];
                stage = std::max(
                    stage, 2 * static_cast<double>((o.repaired ? c.crossing : c.augmented).value) /
                               (level.bandwidth.value * static_cast<double>(m) * *o.activation_compression));
              }
            }
            const std::int64_t behind = machines - used - (o.repaired ? 0 : m);  // that are still to come
            const std::int64_t in_flight = (behind + m - 1) / m;
            const double kept =
                static_cast<double>(in_flight) *
                (parameters / static_cast<double>(o.divides_weights ? m : 1) + sum(&Cut::outputs, from, to));
            if (o.memory_limit && kept > static_cast<double>(o.memory_limit->value)) continue;
            extend(to + 1, used + m, std::max(slowest, stage));
          }
        }
      };
  extend(0, 0, 0);
  return best;
}

TEST(PipeDream, FindsTheBestOfAllPipelines) {
  int infeasible = 0;
  for_each_seed(300, [&](Rng& rng) {
    const LayerGraph graph = random_chain(rng, static_cast<std::int32_t>(rng.between(1, 6)));
    const std::vector<Cut> cuts = cuts_of(graph, 100).value();
    const MachineLevel level{rng.between(1, 5), BytesPerSecond(1e9 * static_cast<double>(rng.between(1, 9)))};
    PipeDreamOptions options;
    if (rng.below(2) == 0) options.activation_compression = static_cast<double>(rng.between(1, 3));
    options.straight = rng.below(4) == 0;
    options.fewer_machines = rng.below(2) == 0;
    options.repaired = rng.below(2) == 0;
    if (rng.below(2) == 0) options.synchronised = static_cast<double>(rng.between(1, 6)) / 2;
    options.divides_weights = rng.below(3) == 0;
    // Fewer machines shift what a stage keeps: then the published recurrence does not count as this does.
    if (!options.fewer_machines && rng.below(2) == 0)
      options.memory_limit = Bytes(rng.between(0, 600'000'000));
    const double expected = best_by_trying(cuts, level, options);
    const auto plan = pipedream(cuts, std::span(&level, 1), options);
    ASSERT_EQ(plan.has_value(), expected < std::numeric_limits<double>::infinity());
    infeasible += plan ? 0 : 1;
    if (!plan) return;
    EXPECT_NEAR(plan->period.value, expected, 1e-12);
    std::vector<std::int32_t> layers;
    std::int64_t used = 0;
    for (const PipelineStage& stage : plan->stages) {
      layers.insert(layers.end(), stage.layers.begin(), stage.layers.end());
      used += stage.replicas();
    }
    std::vector<std::int32_t> all(graph.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(layers, all);
    EXPECT_TRUE(options.fewer_machines ? used <= level.machines : used == level.machines);
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(infeasible, 2);
  }
}

// Groups of one machine change nothing, wherever they stand.
TEST(PipeDream, LevelsOfOneMachineChangeNothing) {
  for_each_seed(50, [&](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(2, 9)), 4);
    const std::vector<Cut> cuts = cuts_of(graph, 2'000).value();
    const MachineLevel level{rng.between(2, 4), BytesPerSecond(2e9)}, one{1, BytesPerSecond(1e9)};
    const auto plan = [&](const std::vector<MachineLevel>& levels) {
      return pipedream(cuts, levels, {}).value();
    };
    const PipeDreamPlan plain = plan({level});
    EXPECT_EQ(plan({one, level}).stages, plain.stages);
    EXPECT_EQ(plan({one, level}).period, plain.period);
    EXPECT_EQ(plan({level, one}).period, plain.period);
  });
}

// A machine of the outer level is all of the inner one. 8 s on two machines that exchange 1 GB of gradients
// at 1 GB/s are (8 + 2) / 2; on two such pairs at 0.1 GB/s, where gradients count half: (5 + 20 / 2) / 2.
TEST(PipeDream, ReplicasOfLevelsMultiply) {
  const LayerGraph graph({{"a", Seconds(3), Seconds(5), Bytes(0), Bytes(1'000'000'000)}}, {});
  const std::vector<Cut> cuts = cuts_of(graph, 10).value();
  const std::vector<MachineLevel> levels{{2, BytesPerSecond(1e9)}, {2, BytesPerSecond(1e8)}};
  const PipeDreamPlan plan = pipedream(cuts, levels, {}).value();
  EXPECT_DOUBLE_EQ(plan.period.value, 7.5);
  EXPECT_THAT(plan.stages, ElementsAre(PipelineStage{{0}, {0, 1, 2, 3}}));
  PipeDreamOptions repaired;
  repaired.repaired = true;
  EXPECT_DOUBLE_EQ(pipedream(cuts, levels, repaired)->period.value, 12.5);
}

// Two layers whose gradients take long, one after the other inside each of two machines: a copy of the
// pipeline in each, so that what crosses the cut stays inside.
TEST(PipeDream, CopiesOfAGroupHaveItsStagesInside) {
  const LayerGraph graph({{"a", Seconds(1), Seconds(1), Bytes(0), Bytes(0)},
                          {"b", Seconds(1), Seconds(1), Bytes(0), Bytes(1'000'000'000)}},
                         {{0, 1}});
  const std::vector<Cut> cuts = cuts_of(graph, 10).value();
  const std::vector<MachineLevel> levels{{2, BytesPerSecond(1e9)}, {2, BytesPerSecond(1e10)}};
  const PipeDreamPlan plan = pipedream(cuts, levels, {}).value();
  EXPECT_THAT(plan.stages, ElementsAre(PipelineStage{{0}, {0, 2}}, PipelineStage{{1}, {1, 3}}));
}

// Branches on two levels: whatever is chosen, no layer is left out or taken twice, none comes before what
// feeds it, and no stage takes longer than the pipeline says.
TEST(PipeDream, StagesOfSeveralLevelsHoldEveryLayerOnce) {
  int nested = 0;
  for_each_seed(200, [&](Rng& rng) {
    const LayerGraph graph = random_layers(rng, static_cast<std::int32_t>(rng.between(2, 9)), 4);
    const std::vector<Cut> cuts = cuts_of(graph, 2'000).value();
    const std::vector<MachineLevel> levels{{rng.between(1, 3), BytesPerSecond(1e10)},
                                           {rng.between(1, 3), BytesPerSecond(1e9)}};
    PipeDreamOptions options;
    options.straight = rng.below(3) == 0;
    const auto plan = pipedream(cuts, levels, options);
    if (!plan) return;  // straight, and fewer cuts than machines
    std::vector<std::size_t> stage_of(graph.size(), SIZE_MAX);
    std::vector<std::int64_t> devices;
    for (std::size_t s = 0; s < plan->stages.size(); ++s) {
      double work = 0;
      for (const std::int32_t layer : plan->stages[s].layers) {
        EXPECT_EQ(std::exchange(stage_of[static_cast<std::size_t>(layer)], s), SIZE_MAX);
        work += (graph[layer].forward + graph[layer].backward).value;
      }
      devices.insert(devices.end(), plan->stages[s].devices.begin(), plan->stages[s].devices.end());
      EXPECT_GE(plan->period.value, work / static_cast<double>(plan->stages[s].replicas()) - 1e-12);
    }
    std::vector<std::int64_t> all(static_cast<std::size_t>(levels[0].machines * levels[1].machines));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    EXPECT_THAT(devices, testing::UnorderedElementsAreArray(all));
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(graph.size()); ++v) {
      EXPECT_LT(stage_of[static_cast<std::size_t>(v)], plan->stages.size());
      for (const std::int32_t u : graph.inputs(v))
        EXPECT_LE(stage_of[static_cast<std::size_t>(u)], stage_of[static_cast<std::size_t>(v)]);
    }
    nested += plan->stages.size() > 2 && levels[0].machines > 1 && levels[1].machines > 1 ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GE(nested, 10);
  }
}

TEST(PipeDream, RefusesWhatCannotBe) {
  const std::vector<Cut> cuts = cuts_of(LayerGraph({{}}, {}), 10).value();
  const std::vector<MachineLevel> level{{1, BytesPerSecond(1)}}, none{{0, BytesPerSecond(1)}}, still{{1, {}}};
  PipeDreamOptions nothing;
  nothing.activation_compression = 0;
  EXPECT_TRUE(pipedream(cuts, level, {}).has_value());
  EXPECT_THROW(pipedream({}, level, {}), InternalError);
  EXPECT_THROW(pipedream(cuts, {}, {}), InternalError);
  EXPECT_THROW(pipedream(cuts, none, {}), InternalError);
  EXPECT_THROW(pipedream(cuts, still, {}), InternalError);
  EXPECT_THROW(pipedream(cuts, level, nothing), InternalError);
}

}  // namespace
}  // namespace pipesim
