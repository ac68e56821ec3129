#include <gmock/gmock.h>

#include <cstdlib>

#include "executor/cpu/cpu_backend.h"
#include "executor/equality.h"
#include "models/zoo/zoo.h"
#include "tests/executor/equality_case.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets.h"

namespace pipesim {
namespace {

class UnderWay : public testing::TestWithParam<EqualModel> {};

// Against a replay: microbatches one after the other, each with the weights that its stage would meet. Steps
// that follow begin with the newest ones.
TEST_P(UnderWay, WeightsThatChangeOnTheWayAreThoseOfAReplay) {
  const OperatorGraph graph = make_zoo_model(GetParam().model);
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource source(graph);
  std::size_t checked = 0;
  for_each_seed(2 * GetParam().plans, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    const bool every = rng.below(2) == 0;
    p.options.pipeline->schedule = every ? "pipedream" : "pipedream-vertical-sync";
    p.options.microbatches += 2;
    if (rng.below(3) == 0) p.options.recompute.kind = Recompute::Kind::Full;
    if (illegal(graph, p.strategy, p.options, topology)) return;
    ++checked;
    Reference reference(graph, costs, world, source, p.options);
    reference.check(p.strategy, p.options);
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_GE(checked, 2U);
}

// Takes microbatches for steps that follow one another.
class OneAfterTheOther : public TensorSource {
 public:
  explicit OneAfterTheOther(const TensorSource& source) : source_(source) {}
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override {
    StepContext alone = step;
    alone.step = step.step * step.microbatches + step.microbatch;
    alone.microbatch = 0;
    alone.microbatches = 1;
    source_.fill(content, tensor, piece, alone);
  }

 private:
  const TensorSource& source_;
};

// In a single stage a step of several microbatches is as many steps of one, whatever the optimizer remembers.
TEST(StashedWeights, OfOneStageChangeAsInStepsOfOneMicrobatch) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource data(graph);
  const OneAfterTheOther source(data);
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  for (const Optimizer optimizer : {Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam}) {
    const auto weights = [&](PlanOptions options, int steps) {
      options.optimizer = optimizer;
      CpuBackend backend(graph, most_devices, optimizer, unpinned());
      Training training(graph, costs, options, strategy, {backend, source, world.worlds(), {DeviceId(0)}, 7},
                        [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
      training.keep_values(Training::Keep::Everything);
      for (int s = 0; s < steps; ++s) training.step();
      return training.values().weights;
    };
    PlanOptions together;
    together.microbatches = 4;
    together.pipeline = Pipeline{"pipedream", std::vector<std::int32_t>(graph.operators().size(), 0)};
    EXPECT_EQ(weights(together, 2), weights({}, 8));
  }
}

// Two replicas of one stage average the gradients of their microbatches before weights change, as steps of
// two microbatches do.
TEST(StashedWeights, OfReplicasInTurnChangeByTheMeanOfTheirGradients) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource data(graph);
  const OneAfterTheOther source(data);
  for (const Optimizer optimizer : {Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam}) {
    const auto weights = [&](PlanOptions options, const Strategy& strategy, int steps) {
      options.optimizer = optimizer;
      CpuBackend backend(graph, most_devices, optimizer, unpinned());
      Training training(graph, costs, options, strategy,
                        {backend, source, world.worlds(), world.devices(), 7},
                        [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
      training.keep_values(Training::Keep::Everything);
      for (int s = 0; s < steps; ++s) training.step();
      return training.values().weights;
    };
    Strategy alone, twice;
    for (const Operator& op : graph.operators()) {
      alone.push_back(single_device(op, DeviceId(0)));
      twice.push_back(single_device(op, DeviceId(0)));
      twice.back().replicas = 2;
      twice.back().devices.emplace_back(1);
    }
    PlanOptions in_turn, together;
    in_turn.microbatches = 4;
    in_turn.pipeline = Pipeline{"pipedream", std::vector<std::int32_t>(graph.operators().size(), 0), {2}};
    together.microbatches = 2;
    EXPECT_EQ(weights(in_turn, twice, 2), weights(together, alone, 4));
  }
}

// Which versions they are can be seen: other ones give other weights.
TEST(StashedWeights, ThatAreOtherOnesGiveOtherResults) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=3,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource source(graph);
  PlanOptions options;
  options.microbatches = 6;
  options.pipeline = Pipeline{"pipedream", {}};
  Strategy strategy;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::size_t stage = 3 * i / graph.operators().size();
    options.pipeline->stage_of.push_back(static_cast<std::int32_t>(stage));
    strategy.push_back(single_device(graph.operators()[i], DeviceId(stage)));
  }
  Reference reference(graph, costs, world, source, options);
  reference.check(strategy);
  const StepValues right = reference.values_of(strategy, options);
  for (const char* other : {"pipedream-vertical-sync", "1f1b"}) {
    options.pipeline->schedule = other;
    EXPECT_GT(differences(reference.values_of(strategy, options), right, graph).front().error, 0.01) << other;
  }
}

// Replicas take microbatches in turn, and their gradients meet; against the same replay.
TEST_P(UnderWay, ReplicasThatTakeTurnsTrainAsAReplay) {
  const OperatorGraph graph = make_zoo_model(GetParam().model);
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource source(graph);
  std::size_t in_turn = 0;
  for_each_seed(GetParam().plans / 2, [&](Rng& rng) {
    RandomPipeline p = random_replicas(graph, rng, topology);
    const std::int32_t turns = ways_of(*p.options.pipeline);
    p.options.microbatches = turns * (turns < 4 ? 3 : 1);
    if (rng.below(3) == 0 && p.options.pipeline->schedule != "inference")
      p.options.recompute.kind = Recompute::Kind::Full;
    if (illegal(graph, p.strategy, p.options, topology)) return;
    in_turn += turns > 1 ? 1U : 0U;
    Reference reference(graph, costs, world, source, p.options);
    reference.check(p.strategy, p.options);
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_GE(in_turn, 1U);
}

TEST_P(UnderWay, InferenceComputesWhatTheUnsplitModelDoes) {
  const OperatorGraph graph = make_zoo_model(GetParam().model);
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const SyntheticSource source(graph);
  for_each_seed(4, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    p.options.pipeline->schedule = "inference";
    if (illegal(graph, p.strategy, p.options, topology)) return;
    Reference reference(graph, costs, world, source, p.options);
    reference.check(p.strategy, p.options);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, UnderWay,
    testing::Values(EqualModel{"mlp:batch=8,layers=4,hidden=16,features=12,classes=8", 12},
                    EqualModel{"lenet:batch=4", 6},
                    EqualModel{"rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24", 6},
                    EqualModel{"gpt:batch=4,layers=2,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 8}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find(':'));
    });

}  // namespace
}  // namespace pipesim
