#include <benchmark/benchmark.h>

#include "taskgraph/moving/redistribution_between_meshes.h"
#include "tests/taskgraph/moving/mesh_cases.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// `together`: all components, else each on its own, as everywhere but between meshes.
void plan(benchmark::State& state, const char* system, const MeshCase& c, std::int64_t node_devices,
          bool together) {
  const Topology topology = make_topology(system);
  const CostModel costs(topology);
  const Layout from = c.from.layout(c.shape, node_devices), to = c.to.layout(c.shape, node_devices);
  const std::vector<bool> peeled = peeled_addends(from, to);
  for (auto _ : state) {
    CommunicationPrices prices(costs);  // a search meets most pairs of layouts once, and groups often
    if (together) {
      benchmark::DoNotOptimize(redistribute(from, to, 4, prices, StepContents::LeaveOut));
    } else {
      benchmark::DoNotOptimize(plan_steps(from, to, peeled, {4, 0, false, prices, StepContents::LeaveOut}));
    }
  }
}

// The cases of arXiv:2211.05322. Goal: below a millisecond each.
void BM_NineCases(benchmark::State& state) {
  const MeshCase c = mesh_cases()[static_cast<std::size_t>(state.range(0))];
  state.SetLabel("case " + c.name + (state.range(1) == 1 ? "" : ", components apart"));
  plan(state, "p100-4x4:5+inter_node.bandwidth=10Gb/s", c, 4, state.range(1) == 1);
}
BENCHMARK(BM_NineCases)
    ->ArgsProduct({benchmark::CreateDenseRange(0, 7, 1), {0, 1}})
    ->Unit(benchmark::kMicrosecond);

// Rows on eight nodes become columns on eight others, in copies on the devices of a node: 64 unit tasks.
void BM_RowsToColumns(benchmark::State& state) {
  const MeshCase c{
      "rows to columns", {4096, 4096}, {0, 8, 8, 0, MeshSide::kCopied}, {8, 8, 8, 1, MeshSide::kCopied}};
  plan(state, "dgx-h100:16", c, 8, state.range(0) == 1);
}
BENCHMARK(BM_RowsToColumns)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// Between stages that split tensors alike there is nothing to choose.
void BM_LikeStages(benchmark::State& state) {
  const MeshCase c{
      "like stages", {4096, 4096}, {0, 4, 8, 0, MeshSide::kCopied}, {4, 4, 8, 0, MeshSide::kCopied}};
  plan(state, "dgx-h100:8", c, 8, state.range(0) == 1);
}
BENCHMARK(BM_LikeStages)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pipesim
