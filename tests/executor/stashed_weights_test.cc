#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "executor/cpu/cpu_backend.h"
#include "executor/cpu/equality.h"
#include "models/zoo/zoo.h"
#include "tests/executor/equality_case.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

class UnderWay : public testing::TestWithParam<EqualModel> {};

// Against a replay: microbatches one after the other, each with the weights that its stage would meet. Steps
// that follow begin with the newest ones.
TEST_P(UnderWay, WeightsThatChangeOnTheWayAreThoseOfAReplay) {
  const EqualityCase c(GetParam().model);
  std::size_t checked = 0;
  for_each_seed(2 * GetParam().plans, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    const bool every = rng.below(2) == 0;
    p.options.pipeline->schedule = every ? "pipedream" : "pipedream-vertical-sync";
    p.options.microbatches += 2;
    if (rng.below(3) == 0) p.options.recompute.kind = Recompute::Kind::Full;
    if (illegal(c.graph, p.strategy, p.options, c.topology)) return;
    ++checked;
    Reference reference = c.reference(p.options);
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

const std::vector<Optimizer> kOptimizers{Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam,
                                         Optimizer::Lion, Optimizer(Optimizer::Adam, DataType::BFloat16)};

// The weights after training under a plan that takes its microbatches one after the other.
std::map<TensorId, std::vector<float>> weights_after(const EqualityCase& c, PlanOptions options,
                                                     const Optimizer& optimizer, const Strategy& strategy,
                                                     int steps) {
  options.optimizer = optimizer;
  const OneAfterTheOther source(c.source);
  CpuBackend backend(c.graph, most_devices, optimizer, unpinned());
  Training training(c.graph, c.costs, options, strategy,
                    {backend, source, c.world.worlds(), c.world.devices(), 7},
                    [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
  training.keep_values(Training::Keep::Everything);
  for (int s = 0; s < steps; ++s) training.step();
  return training.values().weights;
}

// In a single stage a step of several microbatches is as many steps of one, whatever the optimizer remembers.
TEST(StashedWeights, OfOneStageChangeAsInStepsOfOneMicrobatch) {
  const EqualityCase c("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  Strategy strategy;
  for (const Operator& op : c.graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  for (const Optimizer& optimizer : kOptimizers) {
    PlanOptions together;
    together.microbatches = 4;
    together.pipeline = Pipeline{"pipedream", std::vector<std::int32_t>(c.graph.operators().size(), 0)};
    EXPECT_EQ(weights_after(c, together, optimizer, strategy, 2),
              weights_after(c, {}, optimizer, strategy, 8));
  }
}

// Two replicas of one stage average the gradients of their microbatches before weights change, as steps of
// two microbatches do.
TEST(StashedWeights, OfReplicasInTurnChangeByTheMeanOfTheirGradients) {
  const EqualityCase c("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  for (const Optimizer& optimizer : kOptimizers) {
    Strategy alone, twice;
    for (const Operator& op : c.graph.operators()) {
      alone.push_back(single_device(op, DeviceId(0)));
      twice.push_back(single_device(op, DeviceId(0)));
      twice.back().replicas = 2;
      twice.back().devices.emplace_back(1);
    }
    PlanOptions in_turn, together;
    in_turn.microbatches = 4;
    in_turn.pipeline = Pipeline{"pipedream", std::vector<std::int32_t>(c.graph.operators().size(), 0), {2}};
    together.microbatches = 2;
    EXPECT_EQ(weights_after(c, in_turn, optimizer, twice, 2),
              weights_after(c, together, optimizer, alone, 4));
  }
}

// Which versions they are can be seen: other ones give other weights.
TEST(StashedWeights, ThatAreOtherOnesGiveOtherResults) {
  const EqualityCase c("mlp:batch=8,layers=3,hidden=16,features=12,classes=8");
  PlanOptions options;
  options.microbatches = 6;
  options.pipeline = Pipeline{"pipedream", {}};
  Strategy strategy;
  for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
    const std::size_t stage = 3 * i / c.graph.operators().size();
    options.pipeline->stage_of.push_back(static_cast<std::int32_t>(stage));
    strategy.push_back(single_device(c.graph.operators()[i], DeviceId(stage)));
  }
  Reference reference = c.reference(options);
  reference.check(strategy);
  const StepValues right = reference.values_of(strategy, options);
  for (const char* other : {"pipedream-vertical-sync", "1f1b"}) {
    options.pipeline->schedule = other;
    EXPECT_GT(differences(reference.values_of(strategy, options), right, c.graph).front().error, 0.01)
        << other;
  }
}

// Replicas take microbatches in turn, and their gradients meet; against the same replay.
TEST_P(UnderWay, ReplicasThatTakeTurnsTrainAsAReplay) {
  const EqualityCase c(GetParam().model);
  std::size_t in_turn = 0;
  for_each_seed(GetParam().plans / 2, [&](Rng& rng) {
    RandomPipeline p = random_replicas(c.graph, rng, c.topology);
    const std::int32_t turns = ways_of(*p.options.pipeline);
    p.options.microbatches = turns * (turns < 4 ? 3 : 1);
    if (rng.below(3) == 0 && p.options.pipeline->schedule != "inference")
      p.options.recompute.kind = Recompute::Kind::Full;
    if (illegal(c.graph, p.strategy, p.options, c.topology)) return;
    in_turn += turns > 1 ? 1U : 0U;
    Reference reference = c.reference(p.options);
    reference.check(p.strategy, p.options);
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_GE(in_turn, 1U);
}

TEST_P(UnderWay, InferenceComputesWhatTheUnsplitModelDoes) {
  const EqualityCase c(GetParam().model);
  for_each_seed(4, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(c.graph, rng, c.topology);
    p.options.pipeline->schedule = "inference";
    if (illegal(c.graph, p.strategy, p.options, c.topology)) return;
    Reference reference = c.reference(p.options);
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
