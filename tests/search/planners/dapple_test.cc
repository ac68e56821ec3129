#include "search/planners/dapple.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>

#include "sim/base/errors.h"
#include "tests/search/planners/random_layers.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

constexpr Seconds kAnyLatency(std::numeric_limits<double>::infinity());

std::vector<std::int32_t> servers(std::int32_t count, std::int32_t devices_each) {
  std::vector<std::int32_t> server_of;
  for (std::int32_t s = 0; s < count; ++s)
    server_of.insert(server_of.end(), static_cast<std::size_t>(devices_each), s);
  return server_of;
}

// Every cut and every number of replicas, or those that divide the microbatch, on devices in order.
double best_by_trying(const DappleProblem& problem, std::int64_t copies, std::int32_t stages,
                      bool dividing = false) {
  const auto layers = static_cast<std::int32_t>(problem.layers->size());
  const auto devices = static_cast<std::int32_t>(problem.server_of.size());
  double best = std::numeric_limits<double>::infinity();
  std::vector<DappleStage> plan;
  const std::function<void(std::int32_t, std::int32_t)> extend = [&](std::int32_t layer,
                                                                     std::int32_t device) {
    if (static_cast<std::int32_t>(plan.size()) == stages) {
      if (layer == layers && device == devices)
        best = std::min(best, dapple_latency(problem, copies, plan).value);
      return;
    }
    for (std::int32_t last = layer; last < layers; ++last) {
      for (auto replicas = static_cast<std::int32_t>(copies); device + replicas <= devices;
           replicas += static_cast<std::int32_t>(copies)) {
        if (dividing && problem.microbatch % (replicas / copies) != 0) continue;
        StageGroup group;
        for (std::int32_t d = device; d < device + replicas; ++d) group.emplace_back(d);
        plan.push_back({layer, last, std::move(group)});
        extend(last + 1, device + replicas);
        plan.pop_back();
      }
    }
  };
  extend(0, 0);
  return best;
}

DappleProblem random_problem(Rng& rng, const LayerGraph& layers, std::vector<std::int32_t> server_of) {
  const std::int64_t microbatch = rng.between(1, 3);
  return {&layers, rng.between(1, 4), std::move(server_of), microbatch * 4 * rng.between(1, 6), microbatch};
}

// Where it does not matter which devices a stage has.
TEST(Dapple, IsTheBestOfAllOnAlikeDevices) {
  for_each_seed(60, [](Rng& rng) {
    const LayerGraph layers = random_layers(rng, static_cast<std::int32_t>(rng.between(1, 6)), 3);
    const auto devices = static_cast<std::int32_t>(rng.between(1, 2) * 2);
    const DappleProblem problem =
        random_problem(rng, layers, rng.below(2) == 0 ? servers(devices, 1) : servers(1, devices));
    for (const std::int64_t copies : {1, 2}) {
      const std::vector<DapplePlan> plans = dapple(problem, {copies, devices, kAnyLatency, 0, 0, true});
      ASSERT_EQ(plans.size(),
                std::min<std::size_t>(layers.size(), static_cast<std::size_t>(devices / copies)));
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const double tried = best_by_trying(problem, copies, static_cast<std::int32_t>(i) + 1);
        EXPECT_NEAR(plans[i].latency.value, tried, 1e-12 * tried);
        EXPECT_NEAR(dapple_latency(problem, copies, plans[i].stages).value, tried, 1e-12 * tried);
        best = std::min(best, tried);
      }
      EXPECT_NEAR(dapple(problem, {copies, devices, kAnyLatency}).back().latency.value, best, 1e-12 * best);
    }
  });
}

TEST(Dapple, GivesReplicasWholeSamplesWhereAsked) {
  int fewer = 0;  // than without asking
  for_each_seed(60, [&](Rng& rng) {
    const LayerGraph layers = random_layers(rng, static_cast<std::int32_t>(rng.between(1, 6)), 3);
    const DappleProblem problem = random_problem(rng, layers, servers(4, 1));
    const DappleSearch any{1, 4, kAnyLatency, 0, 0, true};
    DappleSearch dividing = any;
    dividing.dividing = true;
    const std::vector<DapplePlan> plans = dapple(problem, dividing);
    std::size_t found = 0;
    for (std::int32_t stages = 1; stages <= 4; ++stages) {
      const double tried = best_by_trying(problem, 1, stages, true);
      if (std::isinf(tried)) continue;
      ASSERT_LT(found, plans.size());
      EXPECT_EQ(plans[found].stages.size(), static_cast<std::size_t>(stages));
      EXPECT_NEAR(plans[found++].latency.value, tried, 1e-12 * tried);
    }
    EXPECT_EQ(found, plans.size());
    fewer += found < dapple(problem, any).size() ? 1 : 0;
  });
  if (!sanitized && std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(fewer, 5);
  }
}

TEST(Dapple, PlacesStagesAtLeastAsWellAsInOrder) {
  for_each_seed(40, [](Rng& rng) {
    const LayerGraph layers = random_layers(rng, static_cast<std::int32_t>(rng.between(2, 5)), 3);
    const DappleProblem problem = random_problem(rng, layers, servers(2, 2));
    for (const DapplePlan& plan : dapple(problem, {1, 4, kAnyLatency, 0, 0, true})) {
      const double in_order = best_by_trying(problem, 1, static_cast<std::int32_t>(plan.stages.size()));
      EXPECT_LE(plan.latency.value, in_order * (1 + 1e-12));
      EXPECT_NEAR(dapple_latency(problem, 1, plan.stages).value, plan.latency.value, 1e-12 * in_order);
      std::vector<int> used(4, 0);
      for (const DappleStage& stage : plan.stages) {
        for (const DeviceId d : stage.devices) ++used[d.index()];
      }
      EXPECT_THAT(used, testing::Each(1));
    }
  });
}

TEST(Dapple, KeepsLessAndFindsNoBetter) {
  for_each_seed(40, [](Rng& rng) {
    const LayerGraph layers = random_chain(rng, 10);
    const DappleProblem problem = random_problem(rng, layers, servers(2, 4));
    const DapplePlan exact = dapple(problem, {1, 8, kAnyLatency}).back();
    const DapplePlan quick = dapple(problem, {1, 8, kAnyLatency, 1}).back();
    EXPECT_GE(quick.latency.value, exact.latency.value);
    EXPECT_TRUE(dapple(problem, {1, 8, exact.latency}).empty());
  });
}

Layer measured(double forward_ms, double backward_ms, std::int64_t output, std::int64_t parameters) {
  return {"", Seconds(forward_ms / 1e3), Seconds(backward_ms / 1e3), Bytes(output), Bytes(parameters)};
}

// BERT-48 as DAPPLE's authors measured it with two samples (github.com/AlibabaPAI/DAPPLE, bert-48-pbs-2.txt):
// 48 equal layers that all read the attention mask.
LayerGraph bert48() {
  std::vector<Layer> layers{measured(0.01, 0, 9'216, 0), measured(0.011, 0, 3'538'944, 0),
                            measured(0.056, 0, 4'325'376, 127'131'648), measured(0, 0, 4'325'376, 0)};
  std::vector<LayerGraph::Edge> edges{{0, 1}, {0, 2}, {2, 3}};
  for (std::int32_t i = 4; i < 52; ++i) {
    layers.push_back(measured(2.69, 4.47, 4'325'376, 50'384'896));
    edges.insert(edges.end(), {{i - 1, i}, {1, i}});
  }
  layers.push_back(measured(0, 0, 0, 4'198'400));
  edges.emplace_back(51, 52);
  return {std::move(layers), edges};
}

// The published planner's answer: eight replicas of each half, a server each.
TEST(Dapple, Bert48OnTwoServersOfEight) {
  const LayerGraph layers = bert48();
  const DappleProblem problem{&layers, 2, servers(2, 8), 64, 2};
  DapplePlan best{kAnyLatency, 1, {}};
  for (const std::int64_t copies : {16, 8, 4, 2, 1}) {
    for (DapplePlan& plan : dapple(problem, {copies, 16, best.latency})) best = std::move(plan);
  }
  EXPECT_NEAR(time_on_one_device(problem) / best.latency, 12.337062, 1e-6);
  ASSERT_EQ(best.stages.size(), 2);
  EXPECT_EQ(best.stages[1].first, 28);
  EXPECT_EQ(best.stages[0].devices.size(), 8);
}

TEST(Dapple, GivesUpAfterItsSteps) {
  const LayerGraph layers = bert48();
  const DappleProblem problem{&layers, 2, servers(2, 8), 64, 2};
  bool complete = true;
  DappleSearch search{1, 16, kAnyLatency};
  search.most_steps = 10'000;
  const std::vector<DapplePlan> plans = dapple(problem, search, &complete);
  EXPECT_FALSE(complete);
  ASSERT_FALSE(plans.empty());
  search.copies = 16;  // one stage only
  (void)dapple(problem, search, &complete);
  EXPECT_TRUE(complete);
}

TEST(Dapple, RefusesWhatCantBe) {
  const LayerGraph layers = bert48();
  EXPECT_THROW(dapple({&layers, 2, servers(2, 8), 64, 2}, {3, 2, kAnyLatency}), InternalError);
  EXPECT_THROW(dapple({&layers, 2, {}, 64, 2}, {1, 2, kAnyLatency}), InternalError);
  EXPECT_THROW(dapple({nullptr, 2, servers(1, 2), 64, 2}, {1, 2, kAnyLatency}), InternalError);
}

}  // namespace
}  // namespace pipesim
