#include "taskgraph/proofs/steady_state.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::Gt;
using testing::IsEmpty;
using testing::Lt;
using testing::SizeIs;

/// A plan of many microbatches, and what is found when few are simulated.
struct FewAndMany {
  FewAndMany(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
             const Strategy& strategy)
      : contents(graph, costs, options), bound(contents.bind(strategy)) {}

  std::optional<SteadyState> find(std::int32_t few) {
    build(few);
    return find_steady_state(expanded, timeline);
  }
  void build(std::int32_t microbatches) {
    expanded.expand(bound, {.microbatches = microbatches});
    timeline = simulate(tasks.dag);
  }

  PlanContents contents;
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
  const TaskGraph& tasks = expanded.graph();
  Timeline timeline;
};

void expect_same(FewAndMany& few, const SteadyState& steady, FewAndMany& all) {
  EXPECT_EQ(steady.time_of(few.timeline.makespan), all.timeline.makespan);
  const TaskTimes times{few.timeline, few.expanded.microbatches(), few.expanded.tasks_of_one_microbatch()};
  EXPECT_EQ(peak_memory(few.expanded, times, steady), peak_memory(all.expanded, all.timeline));
  EXPECT_EQ(allocated_memory(few.expanded), allocated_memory(all.expanded));
}

// Whatever number is simulated: what is claimed of all of them is so, to the nanosecond and the byte.
TEST(SteadyState, IsWhatSimulatingAllGives) {
  std::map<std::string, std::int64_t> proven;
  for_pipelines_of_many_microbatches(12, [&](const OperatorGraph& graph, const CostModel& costs,
                                             const RandomPipeline& p, std::int32_t unit) {
    FewAndMany all(graph, costs, p.options, p.strategy), few(graph, costs, p.options, p.strategy);
    all.build(p.options.microbatches);
    for (std::int32_t n = unit; n < p.options.microbatches; n += unit) {
      SCOPED_TRACE(n);
      if (const auto steady = few.find(n)) {
        ++proven[p.options.pipeline ? p.options.pipeline->schedule : "none"];
        expect_same(few, *steady, all);
      }
    }
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  for (const char* schedule : {"none", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"})
    EXPECT_THAT(proven[schedule], Ge(5)) << schedule;
}

TEST(SteadyState, OfProductsInFloat8IsWhatSimulatingAllGives) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,products=float8");
  const Topology topology = make_topology("dgx-h100:gpus=4");
  const CostModel costs(topology);
  std::int64_t proven = 0;
  for_each_seed(40, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    if (rng.below(4) == 0) p.options.pipeline.reset();
    if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
    const std::int32_t unit = p.options.microbatches;
    p.options.microbatches = unit * (20 / unit);
    FewAndMany all(graph, costs, p.options, p.strategy), few(graph, costs, p.options, p.strategy);
    all.build(p.options.microbatches);
    for (std::int32_t n = unit; n < p.options.microbatches; n += unit) {
      SCOPED_TRACE(n);
      const auto steady = few.find(n);
      if (!steady) continue;
      ++proven;
      expect_same(few, *steady, all);
    }
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_THAT(proven, Ge(5));
}

TEST(SteadyState, HoldsGradientsForTheStepAsSimulatingAllGives) {
  const OperatorGraph graph = make_zoo_model(std::string(kReplicatedLlama) + ",dtype=bfloat16");
  const Topology topology = make_topology("dgx-a100:2");
  const CostModel costs(topology, nullptr,
                        parse_runtime("deepspeed:step-part=3000,buckets=5000,optimizer-kernel=foreach"));
  int proven = 0;
  for (const char* sharding : {"none", "zero1", "zero2", "zero3", "zero1 in float32"}) {
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "gpipe"}) {
      SCOPED_TRACE(std::string(sharding) + ", " + schedule);
      ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, schedule);
      plan.options.state_sharding = parse_state_sharding(std::string(sharding).substr(0, 5));
      plan.options.gradient_type =
          std::string_view(sharding).ends_with("32") ? DataType::Float32 : DataType::BFloat16;
      plan.options.microbatches = 32;
      ASSERT_EQ(illegal(graph, plan.strategy, plan.options, topology), std::nullopt);
      FewAndMany all(graph, costs, plan.options, plan.strategy),
          few(graph, costs, plan.options, plan.strategy);
      all.build(plan.options.microbatches);
      const auto steady = few.find(16);
      if (!steady) continue;
      ++proven;
      expect_same(few, *steady, all);
    }
  }
  EXPECT_THAT(proven, Ge(3));
}

TEST(FewMicrobatches, AreBuiltAsIfThePlanHadNoMore) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  for_each_seed(10, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    FewAndMany few(graph, costs, p.options, p.strategy);
    few.build(p.options.microbatches);
    p.options.microbatches *= 3;
    FewAndMany many(graph, costs, p.options, p.strategy);
    many.build(p.options.microbatches);
    many.build(p.options.microbatches / 3);
    ASSERT_EQ(many.tasks.dag.num_tasks(), few.tasks.dag.num_tasks());
    EXPECT_TRUE(std::ranges::equal(many.tasks.dag.keys(), few.tasks.dag.keys()));
    EXPECT_EQ(many.timeline, few.timeline);
  });
}

constexpr std::int32_t kStages = 4;

// Linear layers, the last one of so many outputs.
OperatorGraph linear_chain(std::int64_t last_outputs) {
  GraphBuilder b("chain", 64);
  TensorId x = b.data("x", {64, 4096});
  for (std::int32_t l = 0; l < kStages; ++l) {
    const std::int64_t out = l + 1 < kStages ? 4096 : last_outputs;
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", out}, {"bias", 0}});
  }
  return b.build();
}

// Each layer is a stage on a device of its own.
class SteadyChain : public testing::Test {
 protected:
  explicit SteadyChain(std::int64_t last_outputs = 4096) : graph_(linear_chain(last_outputs)) {}

  [[nodiscard]] FewAndMany plan(const std::optional<std::string>& schedule, std::int32_t microbatches) const {
    Strategy strategy;
    for (std::size_t i = 0; i < kStages; ++i)
      strategy.push_back(single_device(graph_.operators()[i], DeviceId(schedule ? i : 0)));
    PlanOptions options;
    options.microbatches = microbatches;
    if (schedule) options.pipeline = Pipeline{*schedule, {0, 1, 2, 3}};
    return {graph_, costs_, options, strategy};
  }

  const OperatorGraph graph_;
  const Topology topology_ = make_topology("p100-4x4:1");
  const CostModel costs_{topology_};
};

TEST_F(SteadyChain, OnOneDevicePeriodIsTheTimeOfOneMicrobatch) {
  FewAndMany p = plan(std::nullopt, 100);
  const auto steady = p.find(6);
  ASSERT_TRUE(steady);
  Nanoseconds one = 0;
  for (const BoundOperator* b : p.bound) {
    for (const PassWork* pass : {&b->forward, &b->backward_input, &b->backward_weight}) {
      for (const Nanoseconds duration : pass->durations) one += duration;
    }
  }
  ASSERT_THAT(steady->windows, SizeIs(1));
  EXPECT_EQ(steady->windows[0].length(), one);
  EXPECT_EQ(steady->repeats, 94);
  EXPECT_EQ(steady->time_of(0), 0);
  EXPECT_EQ(steady->time_of(p.timeline.makespan), p.timeline.makespan + 94 * one);
}

TEST_F(SteadyChain, OfEqualStagesHasAWindowForEachWayOfGPipe) {
  FewAndMany p = plan("gpipe", 64);
  const auto steady = p.find(12);
  ASSERT_TRUE(steady);
  ASSERT_THAT(steady->windows, SizeIs(2));
  EXPECT_LT(steady->windows[0].end, steady->windows[1].begin);
  FewAndMany all = plan("gpipe", 64);
  all.build(64);
  expect_same(p, *steady, all);
}

class UnequalSteadyChain : public SteadyChain {
 protected:
  UnequalSteadyChain() : SteadyChain(16384) {}
};

// Before the slow last stage ever more microbatches wait: no two moments are alike.
TEST_F(UnequalSteadyChain, IsNotSteadyUnderGPipe) {
  EXPECT_FALSE(plan("gpipe", 64).find(12));
  EXPECT_TRUE(plan("1f1b", 64).find(12));
}

TEST_F(SteadyChain, IsNotSteadyBeforeItsDevicesHaveFilledUp) {
  EXPECT_FALSE(plan("1f1b", 64).find(kStages));
  EXPECT_FALSE(plan("1f1b", 64).find(64));  // there are no more
}

// Equal layers but one.
OperatorGraph chain_with_unequal(std::int32_t layers, std::int32_t unequal, std::int64_t outputs) {
  GraphBuilder b("chain", 64);
  TensorId x = b.data("x", {64, 4096});
  for (std::int32_t l = 0; l < layers; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", l == unequal ? outputs : 4096}, {"bias", 0}});
  return b.build();
}

// Each layer is a stage on a device of its own, and messages block both devices.
FewAndMany blocking_stages(const OperatorGraph& chain, const CostModel& costs) {
  Strategy strategy;
  PlanOptions options;
  options.microbatches = 512;
  options.pipeline = Pipeline{"1f1b", {}};
  options.pipeline->messages = StageMessages::Blocking;
  for (const Operator& layer : chain.operators()) {
    options.pipeline->stage_of.push_back(static_cast<std::int32_t>(strategy.size()));
    strategy.push_back(single_device(layer, DeviceId(strategy.size())));
  }
  return {chain, costs, options, strategy};
}

// Where messages block, stages may take their turns in a rhythm of many microbatches.
TEST(SteadyState, IsFoundInARhythmThatNoUsualPeriodDivides) {
  struct Chain {
    std::int32_t stages, unequal;
    std::int64_t outputs;
  };
  const Topology topology = make_topology("p100-4x4:4");
  const CostModel costs(topology);
  for (const auto& [stages, unequal, outputs] :
       {Chain{9, 1, 2048}, {9, 4, 4500}, {13, 8, 3072}, {16, 4, 4200}}) {
    SCOPED_TRACE(testing::Message() << stages << " stages, " << unequal << " unequal");
    const OperatorGraph chain = chain_with_unequal(stages, unequal, outputs);
    FewAndMany p = blocking_stages(chain, costs), all = blocking_stages(chain, costs);
    for (const std::int32_t n : few_microbatches(p.contents, p.bound)) EXPECT_FALSE(p.find(n)) << n;
    const std::int32_t more = few_microbatches_in_rhythm(p.expanded, p.timeline);
    ASSERT_THAT(more, AllOf(Gt(p.expanded.microbatches()), Lt(128)));
    const auto steady = p.find(more);
    ASSERT_TRUE(steady);
    all.build(512);
    expect_same(p, *steady, all);
  }
}

TEST_F(SteadyChain, HasNoRhythmBesideTheUsualOnes) {
  FewAndMany p = plan("1f1b", 64);
  ASSERT_TRUE(p.find(28));
  EXPECT_EQ(few_microbatches_in_rhythm(p.expanded, p.timeline), 0);
}

TEST_F(SteadyChain, TriesFewMicrobatches) {
  const auto tried = [&](const std::optional<std::string>& schedule, std::int32_t microbatches) {
    const FewAndMany p = plan(schedule, microbatches);
    return few_microbatches(p.contents, p.bound);
  };
  EXPECT_THAT(tried(std::nullopt, 7), IsEmpty());
  EXPECT_THAT(tried(std::nullopt, 100), ElementsAre(6, 16));
  EXPECT_THAT(tried("1f1b", 15), IsEmpty());
  EXPECT_THAT(tried("1f1b", 16), ElementsAre(8));
  EXPECT_THAT(tried("1f1b", 64), ElementsAre(8, 12, 28));  // 36 are left out: periods of 1, 2, 3 and 4
  EXPECT_THAT(tried("gpipe", 64), ElementsAre(12));
  EXPECT_THAT(tried("zb-h2", 64), ElementsAre(18));
}

}  // namespace
}  // namespace pipesim
