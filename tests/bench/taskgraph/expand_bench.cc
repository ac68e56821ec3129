#include <benchmark/benchmark.h>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Every operator split by its first factor over all devices, or the most that divides it.
Strategy data_parallel(const OperatorGraph& graph, std::int32_t devices) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) {
    ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
    std::int32_t degree = devices;
    while (degree > 1 && (config.degrees[0] = degree, illegal_degrees(op, config.degrees))) --degree;
    for (std::int32_t d = 0; d < degree; ++d) config.devices.emplace_back(d);
    strategy.push_back(std::move(config));
  }
  return strategy;
}

struct Setting {
  explicit Setting(const char* model, const char* devices)
      : graph(make_zoo_model(model)),
        topology(make_topology(devices)),
        strategy(data_parallel(graph, static_cast<std::int32_t>(topology.num_devices()))) {}
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  PlanContents contents{graph, costs, {}};
  Strategy strategy;
};

void count(benchmark::State& state, const TaskGraph& tasks) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tasks.dag.num_tasks()));
  state.counters["tasks"] = static_cast<double>(tasks.dag.num_tasks());
  state.counters["edges"] = static_cast<double>(tasks.dag.num_edges());
}

void BM_Build(benchmark::State& state, const char* model, const char* devices) {
  Setting s(model, devices);
  const BoundStrategy bound = s.contents.bind(s.strategy);
  ExpandedStrategy expanded(s.contents);
  for (auto _ : state) expanded.expand(bound);
  count(state, expanded.graph());
}

// What a search pays for a strategy whose configs and layouts it has met before; goal: below 5 ms for
// Inception-v3 on 64 devices.
void BM_BuildAndSimulate(benchmark::State& state, const char* model, const char* devices) {
  Setting s(model, devices);
  const BoundStrategy bound = s.contents.bind(s.strategy);
  ExpandedStrategy expanded(s.contents);
  SimulationScratch scratch;
  Timeline timeline;
  for (auto _ : state) {
    expanded.expand(bound);
    simulate(expanded.dag(), scratch, timeline);
    benchmark::DoNotOptimize(timeline.makespan);
  }
  count(state, expanded.graph());
}

// The first build of a strategy: every config is bound, every layout redistributed, every collective planned.
void BM_FirstBuild(benchmark::State& state, const char* model, const char* devices) {
  const Setting s(model, devices);
  TaskGraph last;
  for (auto _ : state) {
    const PlanContents contents(s.graph, s.costs, {});
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(s.strategy));
    state.PauseTiming();
    last = expanded.graph();
    state.ResumeTiming();
  }
  count(state, last);
}

#define PIPESIM_EXPAND(benchmark_function)                                           \
  BENCHMARK_CAPTURE(benchmark_function, inception_on_64, "inception-v3", "k80-16x4") \
      ->Unit(benchmark::kMillisecond);                                               \
  BENCHMARK_CAPTURE(benchmark_function, nmt_on_16, "nmt", "p100-4x4")->Unit(benchmark::kMillisecond)

PIPESIM_EXPAND(BM_Build);
PIPESIM_EXPAND(BM_BuildAndSimulate);
PIPESIM_EXPAND(BM_FirstBuild);

}  // namespace
}  // namespace pipesim
