#include <benchmark/benchmark.h>

#include <algorithm>

#include "search/planners/pipedream.h"
#include "search/planners/stage_partition.h"
#include "sim/base/rng.h"

namespace pipesim {
namespace {

// A chain with as many cuts as a large translation model has.
void BM_PipeDream(benchmark::State& state) {
  Rng rng(1);
  std::vector<Layer> layers;
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 0; i < state.range(0); ++i) {
    layers.push_back({"", Seconds(1e-4 * static_cast<double>(rng.between(1, 40))),
                      Seconds(1e-4 * static_cast<double>(rng.between(1, 80))),
                      Bytes(rng.between(0, 50'000'000)), Bytes(rng.between(0, 90'000'000))});
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

// As Alpa sees a transformer: every range of layers on submeshes of powers of two.
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

}  // namespace
}  // namespace pipesim
