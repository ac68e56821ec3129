#include "search/joint/iteration_bound.h"

#include <gtest/gtest.h>

#include <map>

#include "search/baselines/baselines.h"
#include "tests/search/joint/joint_case.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

class JointBounds : public Joint {
 protected:
  // Calls check(plan, what it costs) for legal plans on a random walk.
  template <class Check>
  void walk(std::uint64_t seeds, int steps, Check check) {
    for_each_seed(seeds, [&](Rng& rng) {
      JointPlan plan = pipelined(static_cast<std::int32_t>(1 << rng.below(3)), 8);
      for (int step = 0; step < steps; ++step) {
        const auto next = moves.propose(plan, static_cast<JointMoveKind>(rng.below(kJointMoveKinds)), rng);
        const auto cost = next ? evaluator.evaluate(*next) : std::nullopt;
        if (!cost) continue;
        plan = *next;
        check(plan, *cost);
      }
    });
  }
};

TEST_F(JointBounds, NoIterationIsUnderThem) {
  double tightest = 0;
  int plans = 0;
  walk(4, 30, [&](const JointPlan& plan, const Evaluation& cost) {
    const OperatorGraph& graph = *evaluator.graph(plan.microbatches);
    PlanContents contents(graph, costs, evaluator.options(plan));
    const BoundStrategy strategy = contents.bind(evaluator.strategy(plan));
    IterationBound bound;
    ExpandedStrategy unordered(contents);
    unordered.expand_unordered(strategy);
    const Nanoseconds loads = bound.of_loads(contents, strategy), chains = bound.of_chains(unordered);
    EXPECT_GT(loads, 0);
    EXPECT_LE(loads, chains);
    EXPECT_LE(chains, cost.time);
    EXPECT_LE(permanent_overflow(contents, strategy), cost.overflow);
    tightest = std::max(tightest, static_cast<double>(chains) / static_cast<double>(cost.time));
    ++plans;
  });
  EXPECT_GT(plans, sanitized ? 5 : 30);
  EXPECT_GT(tightest, 0.7);
}

TEST_F(JointBounds, HoldWhereStateIsDivided) {
  int plans = 0;
  Rng drawn(5);
  walk(4, 30, [&](const JointPlan& plan, const Evaluation&) {
    const OperatorGraph& graph = *evaluator.graph(plan.microbatches);
    PlanOptions options = evaluator.options(plan);
    options.state_sharding = random_state_sharding(drawn);
    const Strategy strategy = evaluator.strategy(plan);
    if (!options.state_sharding.any() || illegal(graph, strategy, options, costs.topology())) return;
    SCOPED_TRACE(options.state_sharding.str());
    JointPlan dividing = plan;
    dividing.state_sharding = options.state_sharding;
    const std::optional<Evaluation> cost = evaluator.evaluate(dividing);
    ASSERT_TRUE(cost);
    EXPECT_EQ(*cost, Evaluator(graph, costs, options).evaluate(strategy));
    PlanContents contents(graph, costs, options);
    const BoundStrategy bound = contents.bind(strategy);
    ExpandedStrategy unordered(contents);
    unordered.expand_unordered(bound);
    EXPECT_LE(IterationBound().of_chains(unordered), cost->time);
    EXPECT_LE(permanent_overflow(contents, bound), cost->overflow);
    ++plans;
  });
  EXPECT_GT(plans, sanitized ? 3 : 20);
}

// An iteration of one microbatch on one device has nothing to wait for.
TEST_F(JointBounds, AreExactOnOneDevice) {
  JointPlan plan = pipelined(1, 1);
  plan.meshes = {{{DeviceId(0)}, 1}};
  PlanContents contents(*evaluator.graph(1), costs, evaluator.options(plan));
  const BoundStrategy strategy = contents.bind(evaluator.strategy(plan));
  ExpandedStrategy unordered(contents);
  unordered.expand_unordered(strategy);
  EXPECT_EQ(IterationBound().of_chains(unordered), evaluator.evaluate(plan)->time);
}

TEST_F(JointBounds, WhatIsKeptForGoodMayBeTooMuch) {
  const Topology small = parse_topology(R"({"pipesim_topology": 1, "name": "small",
    "device_kinds": {"small": {"peak": {"float32": "1 TFLOP/s"}, "memory": "1 MB",
                               "memory_bandwidth": "100 GB/s"}},
    "levels": [{"size": 2, "bandwidth": "10 GB/s"}], "device": "small"})",
                                        "small.json");
  const CostModel on_small(small);
  const OperatorGraph& graph = *evaluator.graph(8);
  PlanContents contents(graph, on_small, PlanOptions());
  const Strategy strategy = baseline_strategy("data-parallel", graph, on_small);
  const Bytes over = permanent_overflow(contents, contents.bind(strategy));
  EXPECT_GT(over, Bytes(0));
  EXPECT_LE(over, Evaluator(graph, on_small, PlanOptions()).evaluate(strategy).overflow);
}

// A plan that is given up would have been refused.
TEST_F(JointBounds, GiveUpOnlyWhatIsHopeless) {
  int given_up = 0, scored = 0;
  walk(2, 15, [&](const JointPlan& plan, const Evaluation& cost) {
    for (const double share : {0.8, 1.0, 1.1}) {
      const auto most = static_cast<Nanoseconds>(share * static_cast<double>(cost.time));
      const auto hopeless = [&](const Evaluation& e) { return e.time > most || e.overflow > cost.overflow; };
      JointEvaluator fresh(model_of, costs, PlanOptions());
      const auto found = fresh.evaluate(plan, hopeless);
      found ? ++scored : ++given_up;
      EXPECT_TRUE(found ? *found == cost : hopeless(cost));
      EXPECT_EQ(fresh.evaluate(plan, hopeless), found) << "what is remembered";
      EXPECT_EQ(fresh.evaluate(plan), cost) << "a bound is no score";
    }
  });
  EXPECT_GT(given_up, 0);
  EXPECT_GT(scored, 0);
}

TEST_F(JointBounds, RememberedScoresAreThoseOfFreshEvaluators) {
  const std::unique_ptr<JointEvaluator> other = evaluator.another();
  walk(1, 20, [&](const JointPlan& plan, const Evaluation& cost) {
    EXPECT_EQ(other->evaluate(plan), cost);
    EXPECT_EQ(JointEvaluator(model_of, costs, PlanOptions()).evaluate(plan), cost);
  });
}

// With hardly any memory, what was known of plans of other kinds is forgotten each time.
TEST_F(JointBounds, MemoryDecidesNothing) {
  JointEvaluator forgetful(model_of, costs, PlanOptions());
  forgetful.share_memory(500'000'000);
  for (const std::int32_t microbatches : {4, 8, 4, 2, 8}) {
    for (const std::int32_t stages : {1, 2}) {
      const JointPlan plan = pipelined(stages, microbatches);
      EXPECT_EQ(forgetful.evaluate(plan), JointEvaluator(model_of, costs, PlanOptions()).evaluate(plan));
    }
  }
}

TEST_F(JointBounds, DigestsTellPlansApart) {
  std::map<PlanDigest, JointPlan> plans;
  walk(4, 50, [&](const JointPlan& plan, const Evaluation&) {
    JointPlan known = plan;
    if (known.pipeline.num_stages() == 1) known.pipeline.schedule.clear();  // decides nothing
    EXPECT_EQ(plans.try_emplace(digest_of(plan), known).first->second, known);
  });
  EXPECT_GT(plans.size(), sanitized ? 10 : 40);
  JointScores scores;
  const PlanDigest digest{1, 2};
  EXPECT_EQ(scores.find(digest), std::nullopt);
  const JointScore bound{JointScore::Known::AtLeast, {5, Bytes(0)}},
      exact{JointScore::Known::Exactly, {7, Bytes(1)}};
  for (const JointScore& score : {bound, exact, bound}) scores.keep(digest, score);
  EXPECT_EQ(scores.find(digest), exact);
}

}  // namespace
}  // namespace pipesim
