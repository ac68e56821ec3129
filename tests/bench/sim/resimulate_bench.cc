#include "sim/incremental/resimulate.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/rng.h"
#include "sim/simulate.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNoLimit = std::numeric_limits<Nanoseconds>::max() / 2;

struct LayerTask {
  TaskKey key;
  Nanoseconds duration;
  LaneId lane;
  std::vector<TaskId> predecessors;
};
using LayerGraph = std::vector<LayerTask>;

/// Layers of 64 tasks with two random predecessors each in the layer before, 1 to 100 µs long.
LayerGraph layers_at_random(std::size_t layers) {
  constexpr std::size_t kWidth = 64;
  Rng rng(1);
  LayerGraph g;
  for (std::size_t i = 0; i < layers * kWidth; ++i) {
    LayerTask t{{i / kWidth, i}, rng.between(1000, 100'000), LaneId(rng.below(kWidth)), {}};
    for (int p = 0; i >= kWidth && p < 2; ++p)
      t.predecessors.emplace_back((i / kWidth - 1) * kWidth + rng.below(kWidth));
    g.push_back(t);
  }
  return g;
}

/// 64 lanes, each a chain of tasks; those of one step take equally long, and all wait for all every 16 steps.
LayerGraph chains_in_lockstep(std::size_t steps) {
  constexpr std::size_t kChains = 64;
  Rng rng(2);
  LayerGraph g;
  for (std::size_t step = 0; step < steps; ++step) {
    const Nanoseconds d = rng.between(10'000, 200'000);
    const std::size_t before = (step - 1) * kChains;
    for (std::size_t l = 0; l < kChains; ++l) {
      LayerTask t{{step, l}, d, LaneId(l), {}};
      if (step > 0 && step % 16 != 0) t.predecessors.emplace_back(before + l);
      for (std::size_t p = 0; step > 0 && step % 16 == 0 && p < kChains; ++p)
        t.predecessors.emplace_back(before + p);
      g.push_back(t);
    }
  }
  return g;
}

/// A graph whose middle task gets another duration, by removing and adding it.
class Edited {
 public:
  explicit Edited(const LayerGraph& graph) : graph_(graph), middle_(graph.size() / 2) {
    for (const LayerTask& t : graph) {
      loads_.resize(std::max(loads_.size(), t.lane.index() + 1), 0);
      loads_[t.lane.index()] += t.duration;
      add(dag_.add_task(t.key, t.duration, t.lane), t);
    }
    dag_.finish();
    schedule_.clear(loads_.size());
    resimulate(dag_, schedule_, loads_, kNoLimit, resimulation_);
    apply(resimulation_, dag_, schedule_);
    dag_.keep();
  }

  void lengthen_middle(Nanoseconds by) {
    const LayerTask& t = graph_[middle_];
    const std::vector<TaskId> after(dag_.successors(TaskId(middle_)).begin(),
                                    dag_.successors(TaskId(middle_)).end());
    dag_.remove_tasks(TaskId(middle_), 1);
    const TaskId longer = dag_.add_task(t.key, t.duration + by, t.lane);
    add(longer, t);
    for (const TaskId next : after) dag_.add_edge(longer, next);
    dag_.finish();
    loads_[t.lane.index()] += by;
  }
  Nanoseconds resimulate_with(Nanoseconds limit) {
    return resimulate(dag_, schedule_, loads_, limit, resimulation_).value_or(limit);
  }
  [[nodiscard]] std::size_t tasks_taken() const { return resimulation_.tasks_taken(); }

 private:
  void add(TaskId id, const LayerTask& t) {
    for (const TaskId p : t.predecessors) dag_.add_edge(p, id);
  }

  const LayerGraph& graph_;
  std::size_t middle_;
  std::vector<Nanoseconds> loads_;
  EditableDag dag_;
  Schedule schedule_;
  Resimulation resimulation_;
};

void run_resimulate(benchmark::State& state, const LayerGraph& graph) {
  Edited edited(graph);
  edited.lengthen_middle(5000);
  for (auto _ : state) benchmark::DoNotOptimize(edited.resimulate_with(kNoLimit));
  const auto taken = static_cast<std::int64_t>(edited.tasks_taken());
  state.SetItemsProcessed(state.iterations() * taken);
  state.counters["taken"] = static_cast<double>(taken);
}

void run_in_full(benchmark::State& state, const LayerGraph& graph) {
  TaskDag dag;
  for (const LayerTask& t : graph) {
    const TaskId id = dag.add_task(t.key, t.duration, t.lane);
    for (const TaskId p : t.predecessors) dag.add_edge(p, id);
  }
  dag.finish();
  SimulationScratch scratch;
  Timeline timeline;
  for (auto _ : state) {
    simulate(dag, scratch, timeline);
    benchmark::DoNotOptimize(timeline.makespan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(dag.num_tasks()));
}

void BM_ResimulateRandomLayers(benchmark::State& state) { run_resimulate(state, layers_at_random(50)); }
BENCHMARK(BM_ResimulateRandomLayers)->Unit(benchmark::kMicrosecond);
void BM_FullRandomLayers(benchmark::State& state) { run_in_full(state, layers_at_random(50)); }
BENCHMARK(BM_FullRandomLayers)->Unit(benchmark::kMicrosecond);
void BM_ResimulateLockstep(benchmark::State& state) { run_resimulate(state, chains_in_lockstep(50)); }
BENCHMARK(BM_ResimulateLockstep)->Unit(benchmark::kMicrosecond);
void BM_FullLockstep(benchmark::State& state) { run_in_full(state, chains_in_lockstep(50)); }
BENCHMARK(BM_FullLockstep)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pipesim
