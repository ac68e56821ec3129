#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/evaluator.h"
#include "search/planners/gpipe.h"
#include "tests/seeds.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct Case {
  const char *model, *topology;
  std::int32_t groups, microbatches;
};

// Layers that do not divide by the stages, stages of one device and of several, links fast and slow.
constexpr Case kCases[] = {
    {"mlp:batch=8,layers=9,hidden=256,features=64,classes=10", "p100-4x4:1", 4, 512},
    {"mlp:batch=8,layers=7,hidden=256,features=64,classes=10", "levels:2@10GB/s,2@0.01GB/s", 2, 512},
    {"gpt:batch=8,layers=3,hidden=64,heads=4,sequence=16,vocab=100", "p100-4x4:2", 4, 128},
    {"gpt:batch=8,layers=4,hidden=64,heads=4,sequence=16,vocab=100", "levels:2@1GB/s,2@0.1GB/s", 2, 128},
    {"nmt:batch=8,steps=2,layers=2,hidden=32,embedded=32,vocab=64", "p100-4x4:1", 2, 96},
    {"resnet50:batch=8,image=64", "levels:2@5GB/s,2@1GB/s", 2, 40}};

std::int32_t microbatches_of(const Case& c) { return sanitized ? c.microbatches / 4 : c.microbatches; }

// A cost, and how many tasks were simulated to find it.
std::pair<Evaluation, std::size_t> scored_tasks(Evaluator& evaluator, const Strategy& strategy,
                                                Extent extent) {
  const Evaluated found = evaluator.evaluate(strategy, {.extent = extent, .part = Labels::Leave});
  return {*found.cost, found.part->dag().num_tasks()};
}

// A plan's evaluation by proof and in full, and whether few microbatches were enough.
bool is_proven(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
               const Strategy& strategy) {
  Evaluator evaluator(graph, costs, options);
  const auto [score, tasks] = scored_tasks(evaluator, strategy, Extent::Proving);
  const auto [whole, all_tasks] = scored_tasks(evaluator, strategy, Extent::All);
  EXPECT_EQ(score, whole);
  const bool proven = tasks < all_tasks;
  const Evaluated few = evaluator.evaluate(strategy, {.extent = Extent::Few});
  EXPECT_LE(few.at_least, whole.time);
  EXPECT_TRUE(few.cost || !proven);
  EXPECT_EQ(few.cost.value_or(whole), whole);
  return proven;
}

class Score : public testing::TestWithParam<const char*> {};

TEST_P(Score, IsWhatAllMicrobatchesTake) {
  const std::string schedule = GetParam();
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.model);
    const OperatorGraph graph = make_zoo_model(c.model);
    const Topology topology = make_topology(c.topology);
    const CostModel costs(topology);
    const std::int32_t chunks = schedule_kind(schedule).takes_chunks ? 2 : 1;
    const PipelinedStrategy planned = gpipe_strategy(graph, costs, {c.groups * chunks, chunks, schedule});
    PlanOptions options;
    options.microbatches = microbatches_of(c);
    options.pipeline = planned.pipeline;
    const bool proven = is_proven(graph, costs, options, planned.strategy);
    // Where all go forward first, stages that are not alike drift apart; in a V they are long in filling up.
    const bool may_drift =
        schedule == "gpipe" || (schedule == "zb-v" && c.groups == 4 && c.microbatches == 128);
    EXPECT_TRUE(proven || sanitized || may_drift);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Score,
                         testing::Values("gpipe", "1f1b", "eager-1f1b", "interleaved", "zb-h1", "zb-h2",
                                         "zb-v"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Score, OfBaselinesThatAccumulateGradients) {
  for (const Case& c : kCases) {
    const OperatorGraph graph = make_zoo_model(c.model);
    const Topology topology = make_topology(c.topology);
    const CostModel costs(topology);
    PlanOptions options;
    options.microbatches = microbatches_of(c);
    for (const std::string_view name : baseline_names()) {
      SCOPED_TRACE(fmt::format("{}, {}", c.model, name));
      const bool proven = is_proven(graph, costs, options, baseline_strategy(name, graph, costs));
      EXPECT_TRUE(proven || sanitized);  // then there are too few microbatches to try
    }
  }
}

// One replica stands for all replicas that are alike. Few microbatches are enough, except under gpipe.
TEST(Score, OfDividedStateIsTheSame) {
  // Large enough that transfers do not pile up.
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=8,layers=4,hidden=2048,heads=16,kv_heads=16,vocab=512,sequence=1024,ffn=4096");
  const Topology topology = make_topology("dgx-a100:2");
  const CostModel costs(topology);
  int all_proven = 0;
  for (const char* sharding :
       {"zero1", "zero2", "zero3", "zero3,reshard=never", "zero3,shard=2", "zero1,overlap=gather",
        "zero2,overlap=gather,prefetch=0", "zero3,weights=float32,gather=float32"}) {
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", ""}) {
      SCOPED_TRACE(fmt::format("{}, {}", sharding, schedule));
      ReplicaPlan plan = plan_in_both(graph, {2, *schedule ? 2 : 1, 4}, *schedule ? schedule : "1f1b");
      if (!*schedule) plan.options.pipeline.reset();
      plan.options.microbatches = sanitized ? 24 : 96;
      plan.options.state_sharding = parse_state_sharding(sharding);
      const bool proven = is_proven(graph, costs, plan.options, plan.strategy);
      all_proven += proven ? 1 : 0;
    }
  }
  // Stages that are not alike may drift apart, ever further.
  EXPECT_TRUE(all_proven >= 20 || sanitized) << all_proven;
}

// The same where all weights are updated together, and where they are broadcast.
TEST(Score, OfStateThatIsSummedWholeIsTheSame) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=8,layers=4,hidden=2048,heads=16,kv_heads=16,vocab=512,sequence=1024,ffn=4096");
  const Topology topology = make_topology("dgx-a100:2");
  const CostModel costs(
      topology, nullptr,
      parse_runtime("pipesim:updates=together,sharded-sums=whole,sharded-weights=broadcast,slice=5us"));
  int all_proven = 0;
  for (const char* sharding : {"none", "zero1", "zero2", "zero1,overlap=gather"}) {
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1", ""}) {
      SCOPED_TRACE(fmt::format("{}, {}", sharding, schedule));
      ReplicaPlan plan = plan_in_both(graph, {2, *schedule ? 2 : 1, 4}, *schedule ? schedule : "1f1b");
      if (!*schedule) plan.options.pipeline.reset();
      plan.options.microbatches = sanitized ? 24 : 96;
      plan.options.state_sharding = parse_state_sharding(sharding);
      all_proven += is_proven(graph, costs, plan.options, plan.strategy) ? 1 : 0;
    }
  }
  EXPECT_TRUE(all_proven >= 8 || sanitized) << all_proven;
}

TEST(Score, OfFoldedPipelinesIsTheSame) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=8,layers=3,hidden=64,heads=4,sequence=16,vocab=100");
  const Topology topology = make_topology("dgx-a100");
  const CostModel costs(topology);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const PipelinedStrategy planned = gpipe_strategy(graph, costs, {2, 1, schedule});
    PlanOptions options;
    options.microbatches = 40;
    options.pipeline = planned.pipeline;
    Evaluator evaluator(graph, costs, options, 0);
    const auto [whole, all_tasks] = scored_tasks(evaluator, planned.strategy, Extent::All);
    const auto [score, tasks] = scored_tasks(evaluator, planned.strategy, Extent::Proving);
    EXPECT_EQ(score, whole);
    EXPECT_LT(3 * tasks, all_tasks);
  }
}

// Whatever the iteration is, its microbatches go through at one rate: at best that of the slowest stage, and
// faster than where the pipeline empties.
TEST(Score, OfStreamsIsTheirRate) {
  const OperatorGraph graph =
      make_zoo_model("mlp:batch=256,layers=11,hidden=1024,features=1024,classes=1024");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  const auto score = [&](const char* schedule, std::int32_t microbatches) {
    const PipelinedStrategy planned = gpipe_strategy(graph, costs, {4, 1, schedule});
    PlanOptions options;
    options.microbatches = microbatches;
    options.pipeline = planned.pipeline;
    Evaluator evaluator(graph, costs, options);
    const Evaluation evaluation = evaluator.evaluate(planned.strategy);
    const Evaluated all =
        evaluator.evaluate(planned.strategy, {.extent = Extent::All, .part = Labels::Leave});
    EXPECT_EQ(all.cost, evaluation);
    Nanoseconds busiest = 0;
    std::array<Nanoseconds, 4> compute{};
    const TaskDag& dag = all.part->dag();
    for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
      for (const LaneUse use : dag.lanes(TaskId(t))) {
        if (use.lane.index() < compute.size()) compute[use.lane.index()] += use.hold;
      }
    }
    busiest = *std::ranges::max_element(compute);
    EXPECT_GE(evaluation.time, busiest) << schedule;
    return evaluation.time;
  };
  for (const char* schedule : {"pipedream", "pipedream-vertical-sync"}) {
    const Nanoseconds one = score(schedule, 1), eight = score(schedule, 8);
    EXPECT_LE(eight, 8 * one);
    EXPECT_GT(eight, 8 * (one - 1));
  }
  EXPECT_LT(score("2bw", 8), score("1f1b", 8));
  EXPECT_LE(score("2bw", 8), score("pipedream", 8));  // which updates eight times
}

TEST(Score, CountsWhatDoesNotFit) {
  const OperatorGraph graph =
      make_zoo_model("mlp:batch=131072,layers=16,hidden=4096,features=4096,classes=10");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const PipelinedStrategy planned = gpipe_strategy(graph, costs, {4, 1, schedule});
    PlanOptions options;
    options.microbatches = 40;
    options.pipeline = planned.pipeline;
    SCOPED_TRACE(schedule);
    Evaluator evaluator(graph, costs, options);
    EXPECT_FALSE(evaluator.evaluate(planned.strategy).feasible());
    EXPECT_EQ(is_proven(graph, costs, options, planned.strategy), schedule != std::string("gpipe"));
  }
}

}  // namespace
}  // namespace pipesim
