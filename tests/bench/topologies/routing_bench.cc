#include <benchmark/benchmark.h>

#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// All pairs of 64 devices, trees included. Goal: 20 ms.
void BM_AllPairsOf64(benchmark::State& state) {
  const TopologyParts parts = make_topology("dgx-a100:8").parts();
  for (auto _ : state) {
    const Topology t(parts);
    for (std::int32_t a = 0; a < 64; ++a)
      for (std::int32_t b = 0; b < 64; ++b)
        if (a != b) benchmark::DoNotOptimize(t.route(DeviceId(a), DeviceId(b)));
  }
}
BENCHMARK(BM_AllPairsOf64)->Unit(benchmark::kMillisecond);

// One route of a tree that is there already.
void BM_KnownRoute(benchmark::State& state) {
  const Topology t = make_topology("dgx-a100:8");
  for (auto _ : state) benchmark::DoNotOptimize(t.route(DeviceId(0), DeviceId(63)));
}
BENCHMARK(BM_KnownRoute);

// The first route from a device of a 10,000-GPU cluster.
void BM_FirstRouteOf10000(benchmark::State& state) {
  const Topology t = make_topology("dgx-a100:1250");
  std::int32_t from = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(t.route(DeviceId(from), DeviceId(9999)));
    from = (from + 1) % 9999;
  }
}
BENCHMARK(BM_FirstRouteOf10000)->Unit(benchmark::kMillisecond)->Iterations(200);

void BM_BuildLevels(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(make_topology("levels:8@100GB/s,50@25GB/s,25@10GB/s"));
}
BENCHMARK(BM_BuildLevels)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
