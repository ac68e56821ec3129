#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "models/zoo/zoo.h"
#include "search/alpa/alpa.h"
#include "search/alpa/solved_stages.h"
#include "search/alpa/stage_partition.h"
#include "search/joint/joint_search.h"
#include "search/pipelines/all_pipelines.h"
#include "search/pipelines/layer_clusters.h"
#include "search/planners/dapple.h"
#include "search/planners/gpipe.h"
#include "search/planners/pipedream.h"
#include "sim/base/rng.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

Layer random_layer(Rng& rng) {
  return {"", Seconds(1e-4 * static_cast<double>(rng.between(1, 40))),
          Seconds(1e-4 * static_cast<double>(rng.between(1, 80))), Bytes(rng.between(0, 50'000'000)),
          Bytes(rng.between(0, 90'000'000))};
}

// A chain with as many cuts as a large translation model has.
void BM_PipeDream(benchmark::State& state) {
  Rng rng(1);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 0; i < state.range(0); ++i) {
    layers.push_back(random_layer(rng));
    if (i > 0) edges.emplace_back(i - 1, i);
  }
  const std::vector<Cut> cuts = cuts_of(LayerGraph(std::move(layers), edges), 10'000).value();
  const MachineLevel level{state.range(1), BytesPerSecond(1e9)};
  for (auto _ : state) benchmark::DoNotOptimize(pipedream(cuts, std::span(&level, 1), {}));
}
BENCHMARK(BM_PipeDream)
    ->Args({200, 16})
    ->Args({1500, 16})
    ->ArgNames({"cuts", "machines"})
    ->Unit(benchmark::kMillisecond);

// Two branches of equal length: a cut is a place in each.
void BM_PipeDreamOfBranches(benchmark::State& state) {
  Rng rng(1);
  std::vector<Layer> layers{random_layer(rng)};
  std::vector<LayerGraph::Edge> edges;
  const auto length = static_cast<std::int32_t>(state.range(0));
  for (std::int32_t i = 0; i < 2 * length; ++i) {
    layers.push_back(random_layer(rng));
    edges.emplace_back(i % length == 0 ? 0 : i, i + 1);
  }
  const std::vector<Cut> cuts = cuts_of(LayerGraph(std::move(layers), edges), 10'000).value();
  const MachineLevel level{state.range(1), BytesPerSecond(1e9)};
  for (auto _ : state) benchmark::DoNotOptimize(pipedream(cuts, std::span(&level, 1), {}));
  state.counters["cuts"] = static_cast<double>(cuts.size());
}
BENCHMARK(BM_PipeDreamOfBranches)
    ->Args({38, 16})
    ->ArgNames({"layers", "machines"})
    ->Unit(benchmark::kMillisecond);

// The published score minimised for one copy of the pipeline, from nothing; up to 3 million steps, as
// --cost-model paper does.
void BM_Dapple(benchmark::State& state, const char* model, const char* system) {
  constexpr std::int32_t kClusters = 40;
  const OperatorGraph graph = make_zoo_model(model);
  const Topology topology = make_topology(system);
  const LayerGraph operators = layers_of(graph, CostModel(topology), DeviceId(0));
  const LayerGraph layers = clustered(operators, cluster_layers(operators, kClusters));
  DappleProblem problem{&layers, graph.batch(), {}, 32 * graph.batch(), graph.batch()};
  for (std::size_t d = 0; d < topology.num_devices(); ++d)
    problem.server_of.push_back(topology.device(DeviceId(d)).node);
  bool complete = true;
  for (auto _ : state)
    benchmark::DoNotOptimize(dapple(problem, {1, 16, Seconds(1e9), 0, 3'000'000}, &complete));
  state.counters["exact"] = complete ? 1 : 0;
}
BENCHMARK_CAPTURE(BM_Dapple, bert48_a, "bert48:batch=2", "dapple-a")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Dapple, amoebanet36_a, "amoebanet36:batch=2", "dapple-a")->Unit(benchmark::kMillisecond);

// The problem is Alpa's for a transformer: every range of layers may run on every submesh of 2^n devices.
void BM_StagePartition(benchmark::State& state) {
  Rng rng(1);
  StageProblem problem{static_cast<std::int32_t>(state.range(0)), state.range(1), 64, {}};
  for (std::int32_t first = 0; first < problem.layers; ++first) {
    for (std::int32_t last = first; last < problem.layers; ++last) {
      for (std::int32_t submesh = 0; std::int64_t{1} << submesh <= problem.devices; ++submesh) {
        for (std::int32_t config = 0; config < 4; ++config) {
          const std::int64_t devices = std::int64_t{1} << submesh;
          const double share = (last - first + 1) / static_cast<double>(devices);
          problem.options.push_back(
              {first, last, submesh, config, devices,
               Seconds(share * (1 + 0.1 * static_cast<double>(submesh) + 0.3 * rng.uniform())),
               rng.between(0, 4 * devices)});
        }
      }
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(partition_stages(problem));
}
BENCHMARK(BM_StagePartition)
    ->Args({16, 16})
    ->Args({48, 64})
    ->ArgNames({"layers", "devices"})
    ->Unit(benchmark::kMillisecond);

const char* const kGpt = "gpt:batch=4,layers=24";

// With its costs, which are simulated.
void BM_Alpa(benchmark::State& state) {
  const OperatorGraph graph = make_zoo_model(kGpt);
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 8;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        alpa(graph, costs, options, static_cast<std::int32_t>(state.range(0)), [](auto) {}));
}
BENCHMARK(BM_Alpa)->Arg(16)->Arg(48)->ArgName("layers")->Unit(benchmark::kMillisecond);

// How each run of clusters is split on each submesh, and the partitions: GPT-3 2.6B on servers of 8 V100.
void BM_SolvedStages(benchmark::State& state) {
  const OperatorGraph graph = make_zoo_model(
      "gpt:batch=16,layers=32,hidden=2560,heads=32,sequence=1024,vocab=51200,dtype=float16,dropout=0");
  const Topology topology = make_topology("dapple-a:" + std::to_string(state.range(0)));
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 64;
  for (auto _ : state) {
    SolvedStages stages(graph, costs, options, 16, "1f1b");
    benchmark::DoNotOptimize(stages.plans(Bytes(0), [](auto) {}));
  }
}
BENCHMARK(BM_SolvedStages)->Arg(1)->Arg(4)->ArgName("servers")->Unit(benchmark::kMillisecond)->Iterations(1);

// Every pipeline of a short model, with those that bounds leave out and without.
void BM_BestPipeline(benchmark::State& state, LeaveOut leave_out) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=4");
  const Topology topology = make_topology("levels:2@10GB/s,2@1GB/s");
  const CostModel costs(topology);
  const LayerGraph layers = layers_of(graph, costs, DeviceId(0));
  const PipelineSpace space{cluster_layers(layers, 6), plan_schedules(), 0};
  PlanOptions options;
  options.microbatches = 8;
  std::int64_t simulated = 0;
  for (auto _ : state)
    simulated = best_pipeline(graph, costs, options, space, Placements(topology), leave_out, {}).simulated;
  state.counters["simulated"] = static_cast<double>(simulated);
}
BENCHMARK_CAPTURE(BM_BestPipeline, by_bounds, LeaveOut::ByBounds)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_BestPipeline, all, LeaveOut::Nothing)->Unit(benchmark::kMillisecond);

// Proposals a second of the search over stages and splits together, from GPipe's four stages.
void BM_JointProposals(benchmark::State& state) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  constexpr std::int32_t kBatch = 32;
  JointEvaluator evaluator(
      [](std::int32_t microbatches, const SequenceDivision& /*sequence*/) -> std::optional<OperatorGraph> {
        if (kBatch % microbatches != 0) return std::nullopt;
        return make_zoo_model("gpt:layers=24,batch=" + std::to_string(kBatch / microbatches));
      },
      costs, PlanOptions());
  const CandidateSet candidates(*evaluator.graph(8), topology);
  const JointMoves moves(candidates, kMostMicrobatches);
  PipelinedStrategy made = gpipe_strategy(*evaluator.graph(8), costs, {4, 1, "1f1b"});
  const std::vector<JointPlan> starts{{{}, 8, std::move(made.pipeline), std::move(made.meshes), {}}};
  JointOptions options;
  options.budget = {0, 200};
  for (auto _ : state) benchmark::DoNotOptimize(search_jointly(evaluator, moves, starts, options, {}));
  state.SetItemsProcessed(state.iterations() * options.budget.proposals);
}
BENCHMARK(BM_JointProposals)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
