#include <benchmark/benchmark.h>

#include "costmodel/cost_model.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::vector<DeviceId> all_devices(const Topology& topology) {
  std::vector<DeviceId> group;
  for (std::size_t i = 0; i < topology.num_devices(); ++i) group.emplace_back(i);
  return group;
}

// Making a plan for all devices of a system. Goals: 10 ms for a cube mesh, a second for 10,000 devices.
void plan(benchmark::State& state, const char* system) {
  Topology topology = make_topology(system);
  CostModel costs(topology);
  std::vector<DeviceId> group = all_devices(topology);
  for (auto _ : state) benchmark::DoNotOptimize(costs.plan_collective(Collective::AllReduce, group));
}
BENCHMARK_CAPTURE(plan, cube_mesh, "dgx1-v100")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan, switch_of_8, "dgx-a100")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan, nodes_4_of_8, "dgx-a100:4")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan, ten_thousand, "levels:8@100GB/s,1250@10GB/s")->Unit(benchmark::kMillisecond);

// Asking a plan about a size. Goal: a microsecond.
void ask(benchmark::State& state, const char* system) {
  Topology topology = make_topology(system);
  CollectivePlan plan = CostModel(topology).plan_collective(Collective::AllReduce, all_devices(topology));
  std::int64_t size = 1;
  for (auto _ : state) benchmark::DoNotOptimize(plan.at(Bytes(size = size * 3 % 1'000'003)));
}
BENCHMARK_CAPTURE(ask, switch_of_8, "dgx-a100");
BENCHMARK_CAPTURE(ask, nodes_4_of_8, "dgx-a100:4");

}  // namespace
}  // namespace pipesim
