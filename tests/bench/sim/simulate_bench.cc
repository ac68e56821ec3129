#include <benchmark/benchmark.h>

#include <vector>

#include "sim/base/rng.h"
#include "sim/simulate.h"

namespace pipesim {
namespace {

constexpr std::size_t kLanes = 64;

struct GraphSpec {
  struct Task {
    TaskKey key;
    Nanoseconds duration;
    std::vector<LaneUse> lanes;
    std::vector<TaskId> predecessors;
  };
  std::vector<Task> tasks;

  void build(TaskDag& dag) const {
    dag.clear();
    for (const Task& t : tasks) {
      const TaskId id = t.lanes.size() == 1
                            ? dag.add_task(t.key, t.duration, t.lanes[0].lane, t.lanes[0].hold)
                            : dag.add_task(t.key, t.duration, t.lanes);
      for (const TaskId before : t.predecessors) dag.add_edge(before, id);
    }
    dag.finish();
  }
};

/// Layers of tasks on 64 lanes with two random predecessors each in the layer before, 1 to 100 µs long.
GraphSpec random_layers(std::size_t layers, std::size_t width) {
  Rng rng(1);
  GraphSpec g;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < width; ++i) {
      const Nanoseconds d = rng.between(1000, 100'000);
      const LaneId lane(static_cast<std::size_t>(rng.below(kLanes)));
      GraphSpec::Task t{{layer, i}, d, {{lane, d}}, {}};
      for (int p = 0; layer > 0 && p < 2; ++p)
        t.predecessors.emplace_back((layer - 1) * width + rng.below(width));
      g.tasks.push_back(t);
    }
  }
  return g;
}

/// 64 lanes, each a chain of 750 compute tasks in near lockstep; 400 collectives on 200 link lanes each join
/// and fork all chains.
GraphSpec lockstep_chains() {
  constexpr std::size_t kTasks = 750, kCollectives = 400, kLinks = 200;
  Rng rng(2);
  GraphSpec g;
  std::vector<TaskId> last(kLanes);
  std::uint64_t collectives = 0;
  for (std::size_t i = 0; i < kTasks; ++i) {
    const Nanoseconds d = rng.between(10'000, 200'000);
    for (std::size_t l = 0; l < kLanes; ++l) {
      const Nanoseconds own = d + (rng.below(8) == 0 ? 100 : 0);
      GraphSpec::Task t{{1 + i, l}, own, {{LaneId(l), own}}, {}};
      if (last[l].valid()) t.predecessors.push_back(last[l]);
      last[l] = TaskId(g.tasks.size());
      g.tasks.push_back(t);
    }
    if (collectives * kTasks < (i + 1) * kCollectives) {
      GraphSpec::Task t{{0, collectives++}, 60'000, {}, last};
      for (std::size_t l = 0; l < kLinks; ++l)
        t.lanes.push_back({LaneId(kLanes + l), rng.between(20'000, 50'000)});
      last.assign(kLanes, TaskId(g.tasks.size()));
      g.tasks.push_back(t);
    }
  }
  return g;
}

void count(benchmark::State& state, const TaskDag& dag) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(dag.num_tasks()));
}

void run_simulate(benchmark::State& state, const GraphSpec& graph) {
  TaskDag dag;
  graph.build(dag);
  SimulationScratch scratch;
  Timeline timeline;
  for (auto _ : state) {
    simulate(dag, scratch, timeline);
    benchmark::DoNotOptimize(timeline.makespan);
  }
  count(state, dag);
  const auto per_task = [&](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(dag.num_tasks());
  };
  state.counters["bytes_per_task"] =
      per_task(dag.bytes() + scratch.bytes() + timeline.start.size() * sizeof(Nanoseconds));
  state.counters["edges_per_task"] = per_task(dag.num_edges());
}

void BM_SimulateRandomLayers(benchmark::State& state) {
  run_simulate(state, random_layers(static_cast<std::size_t>(state.range(0)), 1000));
}
BENCHMARK(BM_SimulateRandomLayers)->Arg(50)->Arg(1000)->Unit(benchmark::kMillisecond);

void BM_SimulateLockstepChains(benchmark::State& state) { run_simulate(state, lockstep_chains()); }
BENCHMARK(BM_SimulateLockstepChains)->Unit(benchmark::kMillisecond);

void run_build(benchmark::State& state, const GraphSpec& graph) {
  TaskDag dag;
  for (auto _ : state) {
    graph.build(dag);
    benchmark::DoNotOptimize(dag.num_edges());
  }
  count(state, dag);
}
void BM_BuildRandomLayers(benchmark::State& state) { run_build(state, random_layers(50, 1000)); }
BENCHMARK(BM_BuildRandomLayers)->Unit(benchmark::kMillisecond);
void BM_BuildLockstepChains(benchmark::State& state) { run_build(state, lockstep_chains()); }
BENCHMARK(BM_BuildLockstepChains)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim
