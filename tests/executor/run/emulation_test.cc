#include "executor/run/emulation.h"

#include <gmock/gmock.h>

#include "executor/run/training.h"
#include "models/zoo/zoo.h"
#include "tests/executor/communication/threads_of_one_process.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Sleep = EmulatedPace::Sleep;

Training::MakePace virtual_clock(std::vector<double> slow) {
  return [slow](const TaskDag& dag, std::span<const TaskId> order) {
    return std::make_unique<EmulatedPace>(dag, order, slow, Sleep::Never);
  };
}

class EmulatedZoo : public testing::TestWithParam<const char*> {};

// The runtime against the simulator: real threads, lists and messages must give every task its simulated
// time.
TEST_P(EmulatedZoo, RunsEveryTaskWhenTheSimulatorSays) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topologies[] = {make_topology("p100-4x4:2"), make_topology("cpu:4")};
  for_each_seed(6, [&](Rng& rng) {
    const Topology& topology = topologies[rng.below(2)];
    const CostModel costs(topology);
    const ThreadWorld world(topology.num_devices());
    EmulatedBackend backend;
    const SyntheticSource source(graph);
    const Strategy strategy = random_strategy(graph, rng, topology.num_devices(), 4);
    PlanOptions options;
    options.microbatches = rng.below(2) == 0 ? 3 : 1;
    Training training(graph, costs, options, strategy, {backend, source, world.worlds(), world.devices(), 1},
                      virtual_clock(std::vector<double>(topology.num_devices(), 1.0)));
    for (int step = 0; step < 2; ++step) {
      const StepRecord record = training.step();
      EXPECT_EQ(record.timeline(training.tasks().dag.num_tasks()), training.simulated());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Zoo, EmulatedZoo, testing::ValuesIn(small_models));

TEST(Emulation, ASlowDeviceTakesLonger) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("cpu:2");
  const CostModel costs(topology);
  const ThreadWorld world(2);
  EmulatedBackend backend;
  const SyntheticSource source(graph);
  const Strategy strategy = data_parallel(graph, 2);
  const auto makespan = [&](std::vector<double> slow) {
    Training training(graph, costs, {}, strategy, {backend, source, world.worlds(), world.devices(), 1},
                      virtual_clock(std::move(slow)));
    return training.step().makespan;
  };
  const Nanoseconds plain = makespan({1, 1}), straggler = makespan({1, 1.5}), both = makespan({1.5, 1.5});
  EXPECT_GT(straggler, plain);
  EXPECT_GE(both, straggler);
}

}  // namespace
}  // namespace pipesim
