#include <gmock/gmock.h>

#include "executor/cpu/cpu_backend.h"
#include "executor/cpu/kernel.h"
#include "executor/equality.h"
#include "models/zoo/zoo.h"
#include "tests/executor/threads_of_one_process.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets.h"

namespace pipesim {
namespace {

constexpr std::size_t most_devices = 8;

CpuBackend::Settings unpinned() {
  CpuBackend::Settings s;
  s.pin = false;
  return s;
}

constexpr int steps = 2;

// Two steps of a model unsplit, to compare plans with.
class Reference {
 public:
  Reference(const OperatorGraph& graph, const CostModel& costs, const ThreadWorld& world)
      : graph_(graph), costs_(costs), world_(world), source_(graph) {}

  void check(const Strategy& strategy) {
    UnsplitReference reference(graph_, costs_, {}, unpinned(), source_, world_.worlds(), 7);
    CpuBackend backend(graph_, most_devices, Optimizer::Momentum, unpinned());
    Training training(graph_, costs_, {}, strategy,
                      {backend, source_, world_.worlds(), world_.devices(), 7, false},
                      [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
    training.keep_values(Training::Keep::Everything);
    for (int s = 0; s < steps; ++s) {
      reference.step();
      training.step();
      const StepEquality e = reference.compare(training, training.values().outputs);
      ASSERT_TRUE(UnsplitReference::equal(e))
          << e.worst.name << " differs by " << e.worst.error << " in step " << s << ", noise " << e.noise;
    }
  }

 private:
  const OperatorGraph& graph_;
  const CostModel& costs_;
  const ThreadWorld& world_;
  SyntheticSource source_;
};

class EqualZoo : public testing::TestWithParam<const char*> {};

TEST_P(EqualZoo, ASplitModelComputesWhatTheUnsplitOneDoes) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  for (const Operator& op : graph.operators()) {
    if (!cpu::find_kernel(op.kind)) GTEST_SKIP() << op.kind;
  }
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  Reference reference(graph, costs, world);
  for_each_seed(10, [&](Rng& rng) {
    reference.check(random_strategy(graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

INSTANTIATE_TEST_SUITE_P(Zoo, EqualZoo, testing::ValuesIn(small_models));

}  // namespace
}  // namespace pipesim
