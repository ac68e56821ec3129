#include "search/evaluator.h"

#include <gmock/gmock.h>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/planners/gpipe.h"
#include "search/recipes/expand_recipe.h"
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

constexpr EvaluationRequest kAllTasks{.extent = Extent::All, .part = Labels::Leave};

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
      const Evaluated first = used.evaluate(strategy, kAllTasks);
      used.evaluate(random_strategy(candidates, rng));
      Evaluator fresh(graph, costs, {});
      for (Evaluator* evaluator : {&used, &fresh}) {
        const Evaluated again = evaluator->evaluate(strategy, kAllTasks);
        EXPECT_EQ(again.cost, first.cost);
        EXPECT_EQ(again.part->timeline(), first.part->timeline());
      }
    });
  }
}

// What was simulated stays as it is, whatever its evaluator does next, and when that is gone.
TEST(Evaluator, PartsAreTheCallersUntilTheyAreDropped) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=4,layers=2,sequence=16,hidden=64,heads=4,vocab=97");
  const Topology topology = make_topology("dgx-a100:1"), slow = make_topology("dgx-a100:1+device.rate=x0.5");
  const CostModel costs(topology), others(slow);
  PlanOptions options;
  options.microbatches = 8;
  const RecipeModel model(graph);
  const auto made = [&](const char* text) {
    return expand_recipe(completed(parse_recipe(text), 8, &model), model, topology);
  };
  RecipeStrategy first = made("tp2,pp2,dp2,mbs2");
  first.apply_to(options);
  constexpr EvaluationRequest labelled{.peaks = true, .part = Labels::Make};
  const auto wires = [](const SimulatedPart& part) {
    std::vector<std::size_t> redistributions;
    for (const Wiring& wiring : part.expanded().wirings())
      redistributions.push_back(part.expanded().redistributions_of(wiring).size());
    return redistributions;
  };
  std::optional<SimulatedPart> kept;
  Timeline timeline;
  std::vector<std::size_t> wired;
  {
    Evaluator evaluator(graph, costs, options, 0);
    kept = evaluator.evaluate(first.strategy, labelled).part;
    timeline = kept->timeline();
    wired = wires(*kept);
    const std::vector<std::int64_t> alike = kept->devices_alike();
    EXPECT_NE(kept->folding(), nullptr);
    // Other plans, with and without folding; another pipeline; nothing is forgotten, or priced anew in place.
    evaluator.evaluate(made("tp4,pp2,mbs4").strategy, labelled);
    evaluator.with(std::nullopt, parse_recompute("full")).evaluate(made("tp4,dp2,mbs2").strategy, labelled);
    EXPECT_FALSE(evaluator.forget(Bytes(0)));
    EXPECT_FALSE(evaluator.forget_plans(Bytes(0)));
    const PlanContents* before = &evaluator.contents();
    Evaluator priced = std::move(evaluator).with(others);
    EXPECT_NE(&priced.contents(), before);
    EXPECT_EQ(priced.evaluate(first.strategy, labelled).cost,
              Evaluator(graph, others, options).evaluate(first.strategy));
    EXPECT_EQ(kept->timeline(), timeline);
    EXPECT_EQ(kept->devices_alike(), alike);
  }
  EXPECT_EQ(kept->timeline(), timeline);
  EXPECT_EQ(wires(*kept), wired);
  Evaluator fresh(graph, costs, options, 0);
  const Evaluated again = fresh.evaluate(first.strategy, labelled);
  EXPECT_EQ(again.part->timeline(), timeline);
  EXPECT_EQ(again.part->labels().size(), kept->labels().size());
}

// An evaluator of other pipelines says what a new one says, and leaves the one that it was made from alone.
TEST(Evaluator, OfAnotherPipelineIsLikeANewOne) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=16,layers=4,sequence=16,hidden=64,heads=4,vocab=97");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  PlanOptions options;
  options.microbatches = 6;
  Evaluator unstaged(graph, costs, options);
  const Strategy whole = baseline_strategy("data-parallel", graph, costs);
  const Evaluation alone = unstaged.evaluate(whole);
  for (const char* schedule : {"1f1b", "gpipe", "pipedream", "zb-h1"}) {
    const PipelinedStrategy made = gpipe_strategy(graph, costs, {4, 1, schedule});
    options.pipeline = made.pipeline;
    Evaluator fresh(graph, costs, options);
    EXPECT_EQ(unstaged.with(made.pipeline, {}).evaluate(made.strategy), fresh.evaluate(made.strategy));
    EXPECT_EQ(unstaged.evaluate(whole), alone);
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
      const Evaluated e = evaluator.evaluate(random_strategy(candidates, rng), kAllTasks);
      EXPECT_EQ(e.cost->time, e.part->timeline().makespan);
      EXPECT_THAT(check_schedule(e.part->dag(), e.part->timeline()), testing::IsEmpty());
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
      const Evaluated e = evaluator.evaluate(bound, kAllTasks);
      const auto peaks = peak_memory(e.part->expanded(), e.part->timeline());
      EXPECT_EQ(e.cost->overflow, memory_overflow(peaks, topology)) << model << ", " << name;
      EXPECT_EQ(e.cost->feasible(), !memory_shortage(peaks, topology)) << model << ", " << name;
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
  EXPECT_EQ(refusal([&] { evaluator.evaluate(strategy, kAllTasks); }), kDeadlock);
  EXPECT_EQ(refusal([&] { evaluator.evaluate(strategy); }), kDeadlock);
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
