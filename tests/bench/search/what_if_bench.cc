#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "models/zoo/zoo.h"
#include "search/recipes/expand_recipe.h"
#include "search/what_if/noise.h"
#include "search/what_if/sensitivities.h"
#include "topologies/changes/topology_changes.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// A plan of 64 devices for a GPT, by its number.
struct StudiedPlan {
  explicit StudiedPlan(std::int64_t number)
      : recipe(parse_recipe(number == 0 ? "dp64,mbs1,zero1" : "tp4,pp4,dp4,sp,mbs1")),
        graph(make_zoo_model("gpt3-1.3b:batch=" + std::to_string(recipe.data))),
        topology(make_topology("dgx-a100:8")),
        runtime(parse_runtime("megatron")) {
    const RecipeStrategy made = expand_recipe(recipe, RecipeModel(graph), topology);
    made.apply_to(options);
    options.optimizer = Optimizer::Adam;
    options.microbatches = static_cast<std::int32_t>(512 / recipe.data);
    strategy = made.strategy;
  }
  Recipe recipe;
  OperatorGraph graph;
  Topology topology;
  Runtime runtime;
  PlanOptions options;
  Strategy strategy;
};

// A full evaluation: of nothing that is known before.
void BM_EvaluatePlan(benchmark::State& state) {
  const StudiedPlan plan(state.range(0));
  for (auto _ : state) {
    const CostModel costs(plan.topology, nullptr, plan.runtime);
    Evaluator evaluator(plan.graph, costs, plan.options);
    benchmark::DoNotOptimize(evaluator.evaluate(plan.strategy));
  }
}
BENCHMARK(BM_EvaluatePlan)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// All first-order sensitivities of it.
void BM_Sensitivities(benchmark::State& state) {
  const StudiedPlan plan(state.range(0));
  const SensitivityRequest request{plan.graph,   plan.topology, nullptr, plan.runtime,
                                   plan.options, plan.strategy, false};
  for (auto _ : state) benchmark::DoNotOptimize(sensitivities(request));
}
BENCHMARK(BM_Sensitivities)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// A point of a study: another bandwidth, and what follows from it, as a single prediction finds it.
void BM_PredictedPoint(benchmark::State& state) {
  const StudiedPlan plan(state.range(0));
  double bandwidth = 25;
  for (auto _ : state) {
    TopologyParts parts = plan.topology.parts();
    change_topology(parts, "inter_node.bandwidth", std::to_string(bandwidth += 1) + "Gb/s");
    const Topology topology(std::move(parts));
    const CostModel costs(topology, nullptr, plan.runtime);
    Evaluator evaluator(plan.graph, costs, plan.options);
    benchmark::DoNotOptimize(evaluator.evaluate(plan.strategy));
  }
}
BENCHMARK(BM_PredictedPoint)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// The same as a study does it: tasks of the point before, with other times.
void BM_PointOfStudy(benchmark::State& state) {
  const StudiedPlan plan(state.range(0));
  struct Prices {
    Prices(Topology t, const Runtime& runtime) : topology(std::move(t)), costs(topology, nullptr, runtime) {}
    Topology topology;
    CostModel costs;
  };
  auto before = std::make_unique<Prices>(plan.topology, plan.runtime);
  Evaluator evaluator(plan.graph, before->costs, plan.options);
  evaluator.evaluate(plan.strategy, {.peaks = true});
  int point = 0;
  constexpr int kSlowest = 25, kPoints = 200;
  for (auto _ : state) {
    TopologyParts parts = plan.topology.parts();
    change_topology(parts, "inter_node.bandwidth", std::to_string(kSlowest + point++ % kPoints) + "Gb/s");
    auto now = std::make_unique<Prices>(Topology(std::move(parts)), plan.runtime);
    const PlanContents* priced = &evaluator.contents();
    evaluator = std::move(evaluator).with(now->costs);
    if (&evaluator.contents() != priced) return state.SkipWithError("the plan has other tasks");
    benchmark::DoNotOptimize(evaluator.evaluate(plan.strategy, {.peaks = true}));
    before = std::move(now);
  }
}
BENCHMARK(BM_PointOfStudy)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// Iterations under noise.
void BM_NoisyIterations(benchmark::State& state) {
  const StudiedPlan plan(state.range(0));
  const CostModel costs(plan.topology, nullptr, plan.runtime);
  Evaluator evaluator(plan.graph, costs, plan.options);
  const Noise noise = parse_noise("operators=2%,links=10%,devices=3%");
  constexpr std::int64_t kSamples = 10;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        iteration_times(evaluator, evaluator.contents().bind(plan.strategy), {noise, kSamples, 1, 1}));
  state.SetItemsProcessed(state.iterations() * kSamples);
}
BENCHMARK(BM_NoisyIterations)->Arg(0)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
