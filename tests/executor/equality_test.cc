#include <gmock/gmock.h>

#include <algorithm>

#include "executor/cpu/cpu_backend.h"
#include "executor/equality.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "tests/executor/communication/threads_of_one_process.h"
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

constexpr std::size_t steps = 2;

// Two steps of a model unsplit, to compare plans with.
class Reference {
 public:
  Reference(const OperatorGraph& graph, const CostModel& costs, const ThreadWorld& world,
            const PlanOptions& options = {})
      : graph_(graph), costs_(costs), world_(world), options_(options), source_(graph) {
    UnsplitReference reference(graph, costs, options, unpinned(), source_, world.worlds(), seed);
    for (std::size_t s = 0; s < steps; ++s) {
      reference.step();
      values_.push_back(reference.values());
      noise_.push_back(reference.noise());
    }
  }

  void check(const Strategy& strategy) {
    CpuBackend backend(graph_, most_devices, Optimizer::Momentum, unpinned());
    Training training(graph_, costs_, options_, strategy,
                      {backend, source_, world_.worlds(), world_.devices(), seed, false},
                      [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
    training.keep_values(Training::Keep::Everything);
    for (std::size_t s = 0; s < steps; ++s) {
      training.step();
      const StepEquality e = compare(training, training.values().outputs, values_[s], noise_[s], graph_);
      ASSERT_TRUE(UnsplitReference::equal(e))
          << e.worst.name << " differs by " << e.worst.error << " in step " << s << ", noise " << e.noise;
    }
  }

 private:
  static constexpr std::uint64_t seed = 7;
  const OperatorGraph& graph_;
  const CostModel& costs_;
  const ThreadWorld& world_;
  PlanOptions options_;
  SyntheticSource source_;
  std::vector<StepValues> values_;
  std::vector<RoundingNoise> noise_;
};

// A model at a reduced size, and how many random plans it is run under.
struct EqualModel {
  const char* model;
  std::uint64_t plans;
};

class EqualZoo : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualZoo, ASplitModelComputesWhatTheUnsplitOneDoes) {
  const OperatorGraph graph = make_zoo_model(GetParam().model);
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  Reference reference(graph, costs, world);
  for_each_seed(GetParam().plans, [&](Rng& rng) {
    reference.check(random_strategy(graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualZoo,
    testing::Values(
        EqualModel{"mlp:batch=8,layers=2,hidden=16,features=12,classes=8", 50},
        EqualModel{"lenet:batch=8", 40}, EqualModel{"alexnet:batch=2,image=63,classes=10", 3},
        EqualModel{"vgg16:batch=2,image=32,classes=10", 2}, EqualModel{"resnet50:batch=4,image=32", 3},
        EqualModel{"inception-v3:batch=2,image=80", 1},
        EqualModel{"rnnlm:batch=8,steps=3,hidden=8,embedded=8,vocab=24", 20},
        EqualModel{"rnntc:batch=8,steps=3,hidden=8,embedded=8,vocab=24", 10},
        EqualModel{"nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24", 15},
        EqualModel{"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 20},
        EqualModel{"bert-base:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 15},
        EqualModel{"llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24", 15},
        EqualModel{"mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,"
                   "dtype=float32",
                   15}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      std::string word = text.substr(0, text.find(':'));
      std::replace(word.begin(), word.end(), '-', '_');
      return word;
    });

// Random plans of three microbatches against the unsplit model.
void check_microbatches(const OperatorGraph& graph, std::uint64_t plans) {
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  PlanOptions options;
  options.microbatches = 3;
  Reference reference(graph, costs, world, options);
  for_each_seed(plans, [&](Rng& rng) {
    reference.check(random_strategy(graph, rng, most_devices, static_cast<std::int64_t>(1 + rng.below(8))));
  });
}

class EqualMicrobatches : public testing::TestWithParam<EqualModel> {};

TEST_P(EqualMicrobatches, ASplitModelAddsTheGradientsThatTheUnsplitOneAdds) {
  check_microbatches(make_zoo_model(GetParam().model), GetParam().plans);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualMicrobatches,
    testing::Values(EqualModel{"mlp:batch=8,layers=2,hidden=16,features=12,classes=8", 20},
                    EqualModel{"lenet:batch=4", 10}, EqualModel{"resnet50:batch=4,image=32", 2},
                    EqualModel{"rnnlm:batch=4,steps=3,hidden=8,embedded=8,vocab=24", 8},
                    EqualModel{"gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8", 10}),
    [](const auto& instance) {
      const std::string text = instance.param.model;
      return text.substr(0, text.find(':'));
    });

TEST(Microbatches, AreNormalisedEachAlone) {
  GraphBuilder b("normalised", 4);
  const TensorId x = b.data("x", {4, 3, 8, 8});
  const std::vector<std::int64_t> kernel{3, 3}, pad{1, 1}, classes{6}, axes{2, 3};
  const TensorId y =
      b.add("conv2d", "conv", {x}, {{"out", std::int64_t{8}}, {"kernel", kernel}, {"pad", pad}, {"bias", 0}});
  const TensorId n = b.add("batch_norm", "norm", {y}, {{"activation", "relu"}});
  const TensorId mean = b.add("reduce", "average", {n}, {{"axes", axes}, {"mode", "mean"}});
  const TensorId z = b.add("linear", "fc", {mean}, {{"out", classes}});
  b.add("cross_entropy", "loss", {z, b.data("labels", {4}, DataType::Int64)});
  check_microbatches(b.build(), 25);
}

// What the first steps of an unsplit model compute.
std::vector<StepValues> unsplit_steps(const std::string& model, std::int32_t microbatches) {
  const OperatorGraph graph = make_zoo_model(model);
  const Topology topology = make_topology("cpu:1");
  const CostModel costs(topology);
  const ThreadWorld world(1);
  const SyntheticSource source(graph);
  PlanOptions options;
  options.microbatches = microbatches;
  UnsplitReference reference(graph, costs, options, unpinned(), source, world.worlds(), 7);
  std::vector<StepValues> values;
  for (std::size_t s = 0; s < steps; ++s) {
    reference.step();
    values.push_back(reference.values());
  }
  return values;
}

// Where no operator looks at the whole batch, cutting it changes nothing but the order of sums.
TEST(Microbatches, AddUpToOneBatchOfAllTheirSamples) {
  for (const char* model : {"mlp:layers=2,hidden=16,features=12,classes=8,",
                            "lenet:", "gpt:layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8,",
                            "nmt:steps=2,layers=2,hidden=8,embedded=8,vocab=24,"}) {
    const std::string text = model;
    const OperatorGraph graph = make_zoo_model(text + "batch=12");
    const std::vector<StepValues> whole = unsplit_steps(text + "batch=12", 1);
    for (const std::int32_t microbatches : {3, 6}) {
      const std::vector<StepValues> cut =
          unsplit_steps(text + "batch=" + std::to_string(12 / microbatches), microbatches);
      for (std::size_t s = 0; s < steps; ++s) {
        for (const TensorError& e : differences(cut[s], whole[s], graph)) {
          if (e.largest <= 1e-6) continue;  // the bias of attention's keys: its gradient is rounding alone
          EXPECT_LT(e.error, 2e-5) << model << microbatches << " " << e.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
