#include "search/evaluator.h"

#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "sim/check_schedule.h"
#include "tests/refusal.h"
#include "tests/search/scored_changes.h"
#include "tests/sim/random_graph.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kModels[] = {"lenet", "resnet50:batch=16,image=32",
                                   "rnnlm:batch=32,steps=3,hidden=64,vocab=100",
                                   "gpt:batch=16,layers=2,sequence=16,hidden=64,heads=4,vocab=97"};

// Whatever was evaluated before, a strategy's evaluation is that of a fresh evaluator.
TEST(Evaluator, DoesNotDependOnItsHistory) {
  for (const char* model : kModels) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4");
    const CostModel costs(topology);
    const CandidateSet candidates(graph, topology);
    Evaluator used(graph, costs, {});
    for_each_seed(5, [&](Rng& rng) {
      const Strategy strategy = random_strategy(candidates, rng);
      const Evaluation first = used.evaluate(strategy);
      const Timeline timeline = used.timeline();
      used.evaluate(random_strategy(candidates, rng));
      EXPECT_EQ(used.evaluate(strategy), first);
      EXPECT_EQ(used.timeline(), timeline);
      Evaluator fresh(graph, costs, {});
      EXPECT_EQ(fresh.evaluate(strategy), first);
      EXPECT_EQ(fresh.timeline(), timeline);
    });
  }
}

TEST(Evaluator, SchedulesAreLegal) {
  for (const char* model : kModels) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("levels:2@10GB/s,3@1GB/s");
    const CostModel costs(topology);
    const CandidateSet candidates(graph, topology);
    Evaluator evaluator(graph, costs, {});
    for_each_seed(5, [&](Rng& rng) {
      const Evaluation e = evaluator.evaluate(random_strategy(candidates, rng));
      EXPECT_EQ(e.time, evaluator.timeline().makespan);
      EXPECT_THAT(check_schedule(evaluator.task_graph().dag, evaluator.timeline()), testing::IsEmpty());
    });
  }
}

// Where everything that is ever allocated fits, looking at memory over time must agree.
TEST(Evaluator, OverflowIsThatOfThePeaks) {
  for (const char* model : {"lenet", "vgg16:batch=512", "gpt:batch=64"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("k80-16x4:1");
    const CostModel costs(topology);
    Evaluator evaluator(graph, costs, {});
    for (const std::string_view name : baseline_names()) {
      const BoundStrategy bound = evaluator.contents().bind(baseline_strategy(name, graph, costs));
      const Evaluation e = evaluator.evaluate(bound);
      const auto peaks = peak_memory(evaluator.expanded(), evaluator.timeline());
      EXPECT_EQ(e.overflow, memory_overflow(peaks, topology)) << model << ", " << name;
      EXPECT_EQ(e.feasible(), !memory_shortage(peaks, topology)) << model << ", " << name;
    }
  }
}

TEST(Evaluator, MoreMemoryNeverChangesTime) {
  const OperatorGraph graph = make_zoo_model("gpt3-1.3b:batch=16,layers=4");
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  const Evaluation e = evaluator.evaluate(baseline_strategy("single-device", graph, costs));
  EXPECT_FALSE(e.feasible());
  EXPECT_GT(e.time, 0);
}

// Stages against the direction of data, which illegal() refuses: the last stage waits for the backward of the
// one that it should feed.
TEST(Evaluator, NamesTheTasksOfADeadlock) {
  GraphBuilder builder("chain", 2, DataType::Float32);
  const TensorId x = builder.data("x", {2, 8});
  const TensorId y = builder.add("linear", "first", {x}, {{"out", std::int64_t{8}}, {"bias", 0}});
  builder.add("linear", "second", {y}, {{"out", std::int64_t{8}}, {"bias", 0}});
  const OperatorGraph graph = builder.build();
  const Topology topology = make_topology("levels:2@10GB/s");
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 3;
  options.pipeline = Pipeline{"1f1b", {1, 0}};
  const Strategy strategy{single_device(graph.operators()[0], DeviceId(1)),
                          single_device(graph.operators()[1], DeviceId(0))};
  EXPECT_TRUE(illegal(graph, strategy, options, topology));
  Evaluator evaluator(graph, costs, options);
  constexpr const char* kDeadlock =
      "deadlock: first backward-weight of microbatch 1 on gpu1"
      " waits for gradient of first from gpu0 to gpu1 of microbatch 1,"
      " which waits for second backward-input of microbatch 1 on gpu0,"
      " which waits for end of step 2, of microbatch 2 on gpu0,"
      " which waits for second forward of microbatch 2 on gpu0,"
      " which waits for first from gpu1 to gpu0 of microbatch 2,"
      " which waits for first forward of microbatch 2 on gpu1,"
      " which waits for end of step 2, of microbatch 1 on gpu1,"
      " which waits for first backward-weight of microbatch 1 on gpu1";
  EXPECT_EQ(refusal([&] { evaluator.evaluate(strategy); }), kDeadlock);
  EXPECT_EQ(refusal([&] { evaluator.score(strategy); }), kDeadlock);
  options.pipeline->stage_of = {0, 1};
  Evaluator legal(graph, costs, options);
  EXPECT_GT(legal
                .evaluate({single_device(graph.operators()[0], DeviceId(0)),
                           single_device(graph.operators()[1], DeviceId(1))})
                .time,
            0);
}

}  // namespace
}  // namespace pipesim
