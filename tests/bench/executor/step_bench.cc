#include <benchmark/benchmark.h>

#include <array>
#include <thread>

#include "executor/program/compile.h"
#include "executor/run/emulation.h"
#include "executor/run/training.h"
#include "models/zoo/zoo.h"
#include "tests/executor/communication/threads_of_one_process.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct Plan {
  Plan(const char* model, const char* devices)
      : graph(make_zoo_model(model)),
        topology(make_topology(devices)),
        strategy(data_parallel(graph, static_cast<std::int32_t>(topology.num_devices()))),
        world(topology.num_devices()) {}
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  Strategy strategy;
  ThreadWorld world;
};

// What lists, buffers and events of a step cost when kernels and transfers take no time.
void EmptyStep(benchmark::State& state) {
  const Plan plan("rnnlm:batch=64,steps=10", "cpu:2");
  const SyntheticSource source(plan.graph);
  EmulatedBackend nothing;
  Training training(plan.graph, plan.costs, {}, plan.strategy,
                    {nothing, source, plan.world.worlds(), plan.world.devices(), 1},
                    [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
  for (auto _ : state) benchmark::DoNotOptimize(training.step());
  const auto tasks = static_cast<std::int64_t>(training.tasks().dag.num_tasks());
  state.SetItemsProcessed(state.iterations() * tasks);
  state.counters["tasks"] = static_cast<double>(tasks);
}
BENCHMARK(EmptyStep)->UseRealTime()->Unit(benchmark::kMicrosecond);

// From a strategy to instruction lists.
void MakeTraining(benchmark::State& state) {
  const Plan plan("inception-v3", "p100-4x4:2");
  const SyntheticSource source(plan.graph);
  EmulatedBackend nothing;
  std::size_t tasks = 0;
  for (auto _ : state) {
    const Training training(
        plan.graph, plan.costs, {}, plan.strategy,
        {nothing, source, plan.world.worlds(), plan.world.devices(), 1},
        [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
    tasks = training.program().order.size();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tasks));
  state.counters["tasks"] = static_cast<double>(tasks);
}
BENCHMARK(MakeTraining)->Unit(benchmark::kMillisecond);

// Two threads add up vectors of so many floats, again and again.
void AllReduceOfTwo(benchmark::State& state) {
  const auto elements = state.range(0);
  constexpr std::int64_t calls = 100;
  for (auto _ : state) {
    const ThreadWorld world(2);
    std::array<std::jthread, 2> threads;
    for (std::size_t d = 0; d < threads.size(); ++d) {
      threads[d] = std::jthread([&, d] {
        std::vector<float> data(static_cast<std::size_t>(elements), 1.0F);
        for (std::int64_t i = 0; i < calls; ++i)
          world.worlds()[d]->all_reduce(data.data(), elements, DataType::Float32, ReduceOperation::Max, i);
      });
    }
    for (std::jthread& t : threads) t.join();
  }
  state.SetItemsProcessed(state.iterations() * calls);
  state.SetBytesProcessed(state.iterations() * calls * elements * static_cast<std::int64_t>(sizeof(float)));
}
BENCHMARK(AllReduceOfTwo)->Arg(1)->Arg(1 << 20)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pipesim
