#include "search/planners/dapple.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>

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

// What crosses from the first `cut` layers, as the published code counts it: the layers there that feed none
// there, and for each of those whatever before it feeds a layer that is neither before it nor itself.
double published_output(const LayerGraph& layers, std::int32_t cut) {
  std::set<std::int32_t> counted;
  for (std::int32_t last = 0; last < cut; ++last) {
    const auto is_inside = [&](std::int32_t l) { return l < cut; };
    if (std::ranges::any_of(layers.consumers(last), is_inside)) continue;
    counted.insert(last);
    std::set<std::int32_t> before;
    std::vector<std::int32_t> waiting{last};
    while (!waiting.empty()) {
      const std::int32_t at = waiting.back();
      waiting.pop_back();
      for (const std::int32_t input : layers.inputs(at)) {
        if (before.insert(input).second) waiting.push_back(input);
      }
    }
    for (const std::int32_t l : before) {
      for (const std::int32_t reader : layers.consumers(l)) {
        if (reader != last && !before.contains(reader)) counted.insert(l);
      }
    }
  }
  double bytes = 0;
  for (const std::int32_t l : counted) bytes += static_cast<double>(layers[l].output.value);
  return bytes;
}

struct WrittenStage {
  std::int32_t first = 0, end = 0;  // layers
  std::vector<int> devices;
};

// The published score, written down once more, from sets of devices.
double published_latency(const DappleProblem& problem, int copies, const std::vector<WrittenStage>& stages) {
  const LayerGraph& layers = *problem.layers;
  const auto server = [&](int device) { return problem.server_of[static_cast<std::size_t>(device)]; };
  const auto is_in_one = [&](const std::vector<int>& devices) {
    return std::ranges::all_of(devices, [&](int d) { return server(d) == server(devices[0]); });
  };
  const auto passes = [&](double bytes, const std::vector<int>& from, const std::vector<int>& to) {
    if (!is_in_one(to)) return bytes / 3e9;
    const auto elsewhere = std::ranges::count_if(from, [&](int d) { return server(d) != server(to[0]); });
    if (elsewhere == 0) return bytes / 25e9;
    return bytes / static_cast<double>(from.size()) * static_cast<double>(elsewhere) / 1e9;
  };
  const double scale = static_cast<double>(problem.batch) / static_cast<double>(problem.layers_batch);
  const auto microbatches = static_cast<double>(problem.batch / copies / problem.microbatch);
  double pipeline_time = 0, all = 0, sent = 0, waiting = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double compute = 0;
    for (std::int32_t l = stages[s].first; l < stages[s].end; ++l)
      compute += (layers[l].forward.value + layers[l].backward.value) * scale;
    all += compute;
    pipeline_time = std::max(pipeline_time, compute / static_cast<double>(stages[s].devices.size()));
    if (s == 0) continue;
    const double output = published_output(layers, stages[s].first) * scale;
    const double counted = stages.size() == 2 ? output : 2 * output;
    pipeline_time = std::max(pipeline_time, passes(counted, stages[s - 1].devices, stages[s].devices));
    sent += passes(output / copies / microbatches, stages[s - 1].devices, stages[s].devices);
  }
  std::vector<double> reductions;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::vector<int>& devices = stages[s].devices;
    const auto n = static_cast<double>(devices.size());
    double bytes = 0;
    for (std::int32_t l = stages[s].first; l <= stages[s].end && l < std::ssize(layers); ++l)
      bytes += static_cast<double>(layers[l].parameters.value);
    double reduction = 0;
    if (devices.size() > 1)
      reduction = is_in_one(devices)
                      ? 2 * bytes * (n - 1) / n / 25e9 / static_cast<double>(devices.size() / 2)
                      : 2 * bytes * (n - 1) / n / 3e9;
    reductions.push_back(problem.traffic.once * reduction);
    pipeline_time = std::max(pipeline_time, microbatches * problem.traffic.each * reduction);
  }
  const double block = pipeline_time / microbatches;
  for (std::size_t s = 0; s < stages.size(); ++s)
    waiting = std::max(waiting, reductions[s] - static_cast<double>(s) * block);
  return block * (microbatches - 1) + all / copies / microbatches + sent + waiting;
}

// Every cut, and every stage for every device; of numbers of replicas those that `copies` divides, or that
// divide the microbatch as well.
double best_by_trying(const DappleProblem& problem, int copies, int num_stages, bool dividing = false) {
  const auto layers = static_cast<std::int32_t>(problem.layers->size());
  const std::size_t devices = problem.server_of.size();
  double best = std::numeric_limits<double>::infinity();
  std::vector<WrittenStage> stages(static_cast<std::size_t>(num_stages));
  const std::function<void(std::size_t, std::int32_t)> cut = [&](std::size_t s, std::int32_t first) {
    if (s + 1 == stages.size()) {
      stages[s].first = first, stages[s].end = layers;
      best = std::min(best, published_latency(problem, copies, stages));
      return;
    }
    for (std::int32_t end = first + 1; end < layers; ++end) {
      stages[s].first = first, stages[s].end = end;
      cut(s + 1, end);
    }
  };
  std::vector<int> stage_of(devices, 0);
  for (bool more = num_stages <= layers; more;) {
    for (WrittenStage& stage : stages) stage.devices.clear();
    for (std::size_t d = 0; d < devices; ++d)
      stages[static_cast<std::size_t>(stage_of[d])].devices.push_back(static_cast<int>(d));
    const bool allowed = std::ranges::all_of(stages, [&](const WrittenStage& stage) {
      const auto replicas = static_cast<std::int64_t>(stage.devices.size());
      return replicas > 0 && replicas % copies == 0 &&
             (!dividing || problem.microbatch % (replicas / copies) == 0);
    });
    if (allowed) cut(0, 0);
    std::size_t d = 0;
    while (d < devices && ++stage_of[d] == num_stages) stage_of[d++] = 0;
    more = d < devices;
  }
  return best;
}

DappleProblem random_problem(Rng& rng, const LayerGraph& layers, std::vector<std::int32_t> server_of) {
  const std::int64_t microbatch = rng.between(1, 3);
  DappleProblem problem{&layers, rng.between(1, 4), std::move(server_of), microbatch * 4 * rng.between(1, 6),
                        microbatch};
  if (rng.below(2) == 0) {
    constexpr std::array halves{0.0, 0.5, 1.0, 1.5};
    problem.traffic = {halves[rng.below(3)], halves[rng.below(4)], rng.below(2) == 0};
  }
  return problem;
}

// Outputs that take as long as layers do: of random layers those of many samples do.
LayerGraph busy_layers(Rng& rng, std::int32_t size) {
  const LayerGraph light = random_layers(rng, size, 3);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t l = 0; l < size; ++l) {
    layers.push_back(light[l]);
    layers.back().output = Bytes(light[l].output.value * rng.between(0, 3));
    for (const std::int32_t from : light.inputs(l)) edges.emplace_back(from, l);
  }
  return {std::move(layers), edges};
}

TEST(Dapple, IsTheBestOfAllCutsReplicasAndPlacements) {
  int transfers_bind = 0, placed_otherwise = 0;
  const std::vector<std::vector<std::int32_t>> clusters{servers(4, 1), servers(1, 4), servers(2, 2),
                                                        {0, 0, 0, 1},  {0, 1},        {0, 0, 1, 1, 2}};
  for_each_seed(60, [&](Rng& rng) {
    const LayerGraph layers = busy_layers(rng, static_cast<std::int32_t>(rng.between(1, 6)));
    const DappleProblem problem = random_problem(rng, layers, clusters[rng.below(clusters.size())]);
    const auto devices = static_cast<std::int32_t>(problem.server_of.size());
    for (const std::int64_t copies : {1, 2}) {
      if (devices % copies != 0) continue;
      const std::vector<DapplePlan> plans = dapple(problem, {copies, devices, kAnyLatency, 0, 0, true});
      ASSERT_EQ(plans.size(),
                std::min<std::size_t>(layers.size(), static_cast<std::size_t>(devices / copies)));
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const double tried = best_by_trying(problem, static_cast<int>(copies), static_cast<int>(i) + 1);
        EXPECT_NEAR(plans[i].latency.value, tried, 1e-12 * tried);
        std::vector<WrittenStage> written;
        std::vector<int> used(problem.server_of.size(), 0);
        double slowest = 0;
        for (const DappleStage& stage : plans[i].stages) {
          written.push_back({stage.first, stage.last + 1, {}});
          double seconds = 0;
          for (std::int32_t l = stage.first; l <= stage.last; ++l)
            seconds += (layers[l].forward + layers[l].backward).value;
          slowest = std::max(slowest, seconds / static_cast<double>(stage.devices.size()));
          for (const DeviceId d : stage.devices) {
            written.back().devices.push_back(static_cast<int>(d.index()));
            ++used[d.index()];
          }
        }
        EXPECT_THAT(used, testing::Each(1));
        EXPECT_NEAR(published_latency(problem, static_cast<int>(copies), written), tried, 1e-12 * tried);
        EXPECT_NEAR(dapple_latency(problem, copies, plans[i].stages).value, tried, 1e-12 * tried);
        std::vector<std::int32_t> in_order;
        for (const DappleStage& stage : plans[i].stages) {
          for (const DeviceId d : stage.devices) in_order.push_back(problem.server_of[d.index()]);
        }
        placed_otherwise += std::ranges::is_sorted(in_order) ? 0 : 1;
        const auto microbatches = static_cast<double>(problem.microbatches(copies));
        const double scale = static_cast<double>(problem.batch) / static_cast<double>(problem.layers_batch);
        const double computing =
            slowest * scale * (microbatches - 1) / microbatches +
            time_on_one_device(problem).value / (static_cast<double>(copies) * microbatches);
        transfers_bind += tried > 1.2 * computing && i > 0 ? 1 : 0;
        best = std::min(best, tried);
      }
      EXPECT_NEAR(dapple(problem, {copies, devices, kAnyLatency}).back().latency.value, best, 1e-12 * best);
    }
  });
  if (!sanitized && std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(transfers_bind, 20);
    EXPECT_GT(placed_otherwise, 5);
  }
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

// VGG-19 as DAPPLE's authors measured it with 32 samples (the same repository, vgg-19-pbs-32.txt), without
// its input.
LayerGraph vgg19() {
  std::vector<Layer> layers{
      measured(3.4, 6.8, 384000000, 6835),      measured(7.2, 14.4, 384000000, 140869),
      measured(0.65, 1.3, 96000000, 0),         measured(3.4, 6.8, 192000000, 281738),
      measured(5, 10, 192000000, 562988),       measured(0.3, 0.6, 48000000, 0),
      measured(2.3, 4.6, 96000000, 1125976),    measured(3.55, 7.1, 96000000, 2250976),
      measured(3.55, 7.1, 96000000, 2250976),   measured(3.55, 7.1, 96000000, 2250976),
      measured(0.165, 0.33, 24000000, 0),       measured(1.71, 3.42, 48000000, 4501953),
      measured(2.9, 5.8, 48000000, 9001953),    measured(2.88, 5.76, 48000000, 9001953),
      measured(2.86, 5.72, 48000000, 9001953),  measured(0.1, 0.2, 12000000, 0),
      measured(0.965, 1.93, 12000000, 9001953), measured(0.965, 1.93, 12000000, 9001953),
      measured(0.96, 1.92, 12000000, 9001953),  measured(0.965, 1.93, 12000000, 9001953),
      measured(0.03, 0.06, 3000000, 0),         measured(0.45, 0.9, 500000, 392015625),
      measured(0.1, 0.2, 500000, 64015625),     measured(0.05, 0.1, 128000, 15628814),
      measured(0.01, 0.2, 2000000, 0),
  };
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t l = 1; l < std::ssize(layers); ++l) edges.emplace_back(l - 1, l);
  return {std::move(layers), edges};
}

// AmoebaNet-36 with one sample (the same repository, amoeba-36-pbs-1.txt), without its input. Every cell
// reads the two before it.
LayerGraph amoebanet36() {
  std::vector<Layer> layers{
      measured(0.08, 0.07, 6308352, 3456),
      measured(0.61, 1.57, 9633792, 245760),
      measured(0.57, 1.73, 4816896, 1327104),
      measured(0.97, 2.38, 12845056, 8388608),
      measured(1.04, 2.35, 12845056, 11796480),
      measured(1.11, 3.04, 12845056, 14417920),
      measured(1.04, 2.28, 12845056, 14417920),
      measured(1.08, 2.61, 12845056, 14417920),
      measured(1.04, 2.33, 12845056, 14417920),
      measured(1.11, 3.04, 12845056, 14417920),
      measured(1.04, 2.28, 12845056, 14417920),
      measured(1.08, 2.61, 12845056, 14417920),
      measured(1.04, 2.33, 12845056, 14417920),
      measured(1.11, 3.04, 12845056, 14417920),
      measured(1.04, 2.28, 12845056, 14417920),
      measured(1.16, 2.51, 4816896, 31195136),
      measured(0.97, 2.7, 6422528, 45088768),
      measured(0.95, 2.66, 6422528, 53477376),
      measured(0.97, 3.44, 6422528, 57671680),
      measured(0.99, 2.5, 6422528, 57671680),
      measured(0.97, 2.84, 6422528, 57671680),
      measured(1, 2.91, 6422528, 57671680),
      measured(0.97, 3.44, 6422528, 57671680),
      measured(0.99, 2.5, 6422528, 57671680),
      measured(0.97, 2.84, 6422528, 57671680),
      measured(1, 2.91, 6422528, 57671680),
      measured(0.97, 3.44, 6422528, 57671680),
      measured(0.99, 2.5, 6422528, 57671680),
      measured(1.27, 3.42, 2408448, 124780544),
      measured(1.24, 3.63, 3211264, 180355072),
      measured(1.74, 3.65, 3211264, 213909504),
      measured(1.66, 3.18, 3211264, 230686720),
      measured(1.73, 4.13, 3211264, 230686720),
      measured(1.6, 3.62, 3211264, 230686720),
      measured(2.01, 4.14, 3211264, 230686720),
      measured(1.66, 3.18, 3211264, 230686720),
      measured(1.73, 4.13, 3211264, 230686720),
      measured(1.6, 3.62, 3211264, 230686720),
      measured(2.01, 4.14, 3211264, 230686720),
      measured(1.66, 3.18, 1605632, 230686720),
      measured(1.73, 4.13, 1605632, 230686720),
      measured(0.13, 0.1, 4004, 32804772),
      measured(0.04, 0, 0, 0),
  };
  std::vector<LayerGraph::Edge> edges;
  constexpr std::int32_t kLastCell = 40;
  for (std::int32_t l = 1; l < std::ssize(layers); ++l) {
    edges.emplace_back(l - 1, l);
    if (l >= 2 && l <= kLastCell) edges.emplace_back(l - 2, l);
  }
  return {std::move(layers), edges};
}

double best_score(const DappleProblem& problem) {
  Seconds latency = kAnyLatency;
  for (const std::int64_t copies : {16, 8, 4, 2, 1}) {
    bool complete = false;
    for (const DapplePlan& plan : dapple(problem, {copies, 16, latency}, &complete)) latency = plan.latency;
    EXPECT_TRUE(complete);
  }
  return time_on_one_device(problem) / latency;
}

StageGroup device_range(std::int32_t first, std::int32_t end) {
  StageGroup group;
  for (std::int32_t d = first; d < end; ++d) group.emplace_back(d);
  return group;
}

// The published planner answers 15:1 for VGG-19 on two servers, and finds 8.108 times one device for
// AmoebaNet-36 on 16 servers. Its own score likes others better: 14:2 in two copies, and 9.457 in four.
TEST(Dapple, OfPublishedProfilesOnTwoServersAndOnSixteen) {
  const LayerGraph vgg = vgg19();
  const DappleProblem vgg_a{&vgg, 32, servers(2, 8), 2048, 32}, vgg_b{&vgg, 32, servers(16, 1), 2048, 32};
  const Seconds published =
      dapple_latency(vgg_a, 1, {{0, 17, device_range(0, 15)}, {18, 24, device_range(15, 16)}});
  EXPECT_NEAR(time_on_one_device(vgg_a) / published, 12.062334, 1e-6);
  EXPECT_NEAR(best_score(vgg_a), 12.147768, 1e-6);
  EXPECT_NEAR(best_score(vgg_b), 10.524943, 1e-6);

  const LayerGraph amoeba = amoebanet36();
  const DappleProblem amoeba_a{&amoeba, 1, servers(2, 8), 128, 1},
      amoeba_b{&amoeba, 1, servers(16, 1), 128, 1};
  const Seconds four_copies = dapple_latency(
      amoeba_b, 4,
      {{0, 24, device_range(0, 8)}, {25, 33, device_range(8, 12)}, {34, 42, device_range(12, 16)}});
  EXPECT_NEAR(time_on_one_device(amoeba_b) / four_copies, 9.456883, 1e-6);
  EXPECT_NEAR(best_score(amoeba_a), 12.867091, 1e-6);
  EXPECT_NEAR(best_score(amoeba_b), 11.409500, 1e-6);
}

TEST(Dapple, CountsActivationsOnceInTwoStages) {
  EXPECT_EQ(dapple_activation_factor(2), 1);
  EXPECT_EQ(dapple_activation_factor(3), 2);
  // Three layers of no time that hand on 3 GB a batch, each on a server: 3 s a hop in the block once, or 6 s.
  const LayerGraph layers({{"a", {}, {}, Bytes(3'000'000'000), {}},
                           {"b", {}, {}, Bytes(3'000'000'000), {}},
                           {"c", {}, {}, {}, {}}},
                          {{0, 1}, {1, 2}});
  const DappleProblem problem{&layers, 1, servers(3, 1), 1, 1};
  const DappleProblem four{&layers, 4, servers(3, 1), 4, 1};
  const std::vector<DappleStage> two{{0, 0, device_range(0, 1)}, {1, 2, device_range(1, 2)}},
      three{{0, 0, device_range(0, 1)}, {1, 1, device_range(1, 2)}, {2, 2, device_range(2, 3)}};
  EXPECT_DOUBLE_EQ(dapple_latency(problem, 1, two).value, 3);
  EXPECT_DOUBLE_EQ(dapple_latency(problem, 1, three).value, 6);
  EXPECT_DOUBLE_EQ(dapple_latency(four, 1, two).value, 3 * 0.75 + 0.75);
  EXPECT_DOUBLE_EQ(dapple_latency(four, 1, three).value, 6 * 0.75 + 2 * 0.75);
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

// A use of the devices counts as a step, too, however little comes of it: there are thousands.
TEST(Dapple, EndsAfterItsStepsOnManyServers) {
  const LayerGraph layers = bert48();
  const DappleProblem problem{&layers, 2, servers(8, 8), 512, 2};
  DappleSearch search{1, 64, kAnyLatency};
  search.most_kept = 2;
  search.most_steps = 100'000;
  bool complete = true;
  const std::vector<DapplePlan> plans = dapple(problem, search, &complete);
  EXPECT_FALSE(complete);
  ASSERT_FALSE(plans.empty());
  std::size_t devices = 0;
  for (const DappleStage& stage : plans.back().stages) devices += stage.devices.size();
  EXPECT_EQ(devices, 64);
}

TEST(Dapple, RefusesWhatCantBe) {
  const LayerGraph layers = bert48();
  EXPECT_THROW(dapple({&layers, 2, servers(2, 8), 64, 2}, {3, 2, kAnyLatency}), InternalError);
  EXPECT_THROW(dapple({&layers, 2, {}, 64, 2}, {1, 2, kAnyLatency}), InternalError);
  EXPECT_THROW(dapple({nullptr, 2, servers(1, 2), 64, 2}, {1, 2, kAnyLatency}), InternalError);
}

}  // namespace
}  // namespace pipesim
