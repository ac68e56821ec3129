#include "search/exhaustive/exhaustive.h"

#include <gmock/gmock.h>

#include <string>

#include "models/graph_builder.h"
#include "search/exhaustive/upstream_table.h"
#include "sim/base/deadline.h"
#include "tests/search/search_case.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::Ge;
using testing::Le;

// Devices that hold next to nothing, or as they are.
Topology with_memory(const Topology& topology, Bytes memory) {
  TopologyParts parts = topology.parts();
  for (DeviceKind& kind : parts.kinds) kind.memory = memory;
  return Topology(std::move(parts));
}

// The best of all strategies of the set, by trying every one.
std::optional<Nanoseconds> brute_force(Evaluator& evaluator, const CandidateSet& candidates) {
  const std::size_t n = candidates.graph().operators().size();
  std::vector<std::size_t> state(n, 0);
  std::optional<Nanoseconds> best;
  for (std::size_t i = 0; i < n;) {
    BoundStrategy strategy;
    for (std::size_t op = 0; op < n; ++op) {
      strategy.push_back(
          evaluator.contents().bind(OperatorId(op), candidates.config(OperatorId(op), state[op])));
    }
    const Evaluation e = evaluator.evaluate(strategy);
    if (e.feasible() && (!best || e.time < *best)) best = e.time;
    for (i = 0; i < n && ++state[i] == candidates.size(OperatorId(i)); ++i) state[i] = 0;
  }
  return best;
}

void expect_brute_force(const SearchCase& c) {
  SCOPED_TRACE(c.graph.name() + " on " + c.topology.name());
  Evaluator evaluator(c.graph, c.costs, PlanOptions{});
  const auto best = brute_force(evaluator, c.candidates);
  const SearchOutcome outcome = c.exhaustive();
  EXPECT_TRUE(outcome.proven);
  ASSERT_EQ(outcome.best.has_value(), best.has_value());
  if (!best) return;
  EXPECT_EQ(outcome.best->evaluation.time, *best);
  EXPECT_EQ(evaluator.evaluate(outcome.best->plan), outcome.best->evaluation);
}

// y = x·w + relu(x·w), so that one tensor has two readers and they meet again.
OperatorGraph residual() {
  GraphBuilder builder("residual", 8, DataType::Float32);
  const TensorId x = builder.data("x", {8, 64});
  const TensorId y = builder.add("linear", "linear", {x}, {{"out", Sizes{64}}, {"bias", 0}});
  const TensorId z = builder.add("relu", "relu", {y});
  builder.add("add", "sum", {y, z});
  return builder.build();
}

TEST(Exhaustive, EqualsTryingEverythingOnTwoDevices) {
  for (const char* system :
       {"levels:2@10GB/s", "levels:2@10GB/s@20us", "levels:2@100GB/s@1us", "levels:1@1GB/s,2@1GB/s"}) {
    expect_brute_force(SearchCase("mlp:batch=64,layers=1,features=64,hidden=64", system));
    expect_brute_force(SearchCase("mlp:batch=64,layers=1,features=4096,hidden=4096,classes=4096", system));
    expect_brute_force(SearchCase("rnnlm:batch=64,steps=1,layers=1,hidden=512,vocab=64", system));
    expect_brute_force(SearchCase("rnnlm:batch=8192,steps=1,layers=1,hidden=64,vocab=64", system));
    expect_brute_force(SearchCase(residual(), system));
  }
}

TEST(Exhaustive, EqualsTryingEverythingOnFourDevices) {
  for (const char* system : {"levels:2@50GB/s,2@2GB/s@5us", "p100-4x4:1"}) {
    expect_brute_force(SearchCase("mlp:batch=4096,layers=1,features=256,hidden=512", system));
    expect_brute_force(SearchCase("mlp:batch=32,layers=1,features=8192,hidden=8192,classes=512", system));
  }
}

// What fits decides, not what is fast; and when nothing fits, that is proven.
TEST(Exhaustive, OnlyStrategiesThatFitAreBest) {
  SearchCase c("mlp:batch=64,layers=1,features=512,hidden=512,classes=512", "levels:2@10GB/s");
  Evaluator evaluator(c.graph, c.costs, PlanOptions{});
  const Nanoseconds unlimited = *brute_force(evaluator, c.candidates);
  std::vector<std::optional<Nanoseconds>> best;
  for (const std::int64_t memory : {8'000'000, 5'000'000, 3'000'000}) {
    const Topology small = with_memory(c.topology, Bytes(memory));
    const CostModel costs(small);
    const CandidateSet candidates(c.graph, small);
    Evaluator judge(c.graph, costs, PlanOptions{});
    best.push_back(brute_force(judge, candidates));
    const SearchOutcome outcome = exhaustive(c.graph, costs, PlanOptions{}, candidates, {c.single()}, {}, {});
    EXPECT_TRUE(outcome.proven);
    ASSERT_EQ(outcome.best.has_value(), best.back().has_value());
    if (outcome.best) {
      EXPECT_EQ(outcome.best->evaluation, (Evaluation{*best.back(), Bytes(0)}));
    }
  }
  EXPECT_THAT(best[1].value_or(0), Ge(unlimited));
  EXPECT_FALSE(best.back().has_value()) << "even both devices together hold too little";
}

// Every bound on the way to a strategy is below its time, the table's included.
void expect_bounds_hold(const SearchCase& c, const UpstreamEffort& effort) {
  SCOPED_TRACE(c.graph.name() + " on " + c.topology.name());
  Evaluator evaluator(c.graph, c.costs, PlanOptions{});
  const OperatorBlocks blocks = chain_of_blocks(c.graph);
  const UpstreamTable table(c.candidates, blocks, evaluator.contents(), effort, [] { return true; });
  PartialGraph graph(evaluator.contents());
  for_each_seed(100, [&](Rng& rng) {
    std::vector<std::size_t> joint;
    BoundStrategy strategy(c.graph.operators().size());
    for (const auto& ops : blocks) {
      const BlockConfigs configs(c.candidates, ops);
      joint.push_back(rng.below(configs.size()));
      for (std::size_t i = 0; i < ops.size(); ++i) {
        strategy[ops[i].index()] =
            evaluator.contents().bind(ops[i], c.candidates.config(ops[i], configs.config(joint.back(), i)));
      }
    }
    const Nanoseconds time = evaluator.evaluate(strategy).time;
    std::vector<bool> settled(strategy.size(), false);
    Nanoseconds known = 0;
    for (std::size_t b = blocks.size(); b-- > 0;) {
      for (const OperatorId op : blocks[b]) settled[op.index()] = true;
      std::vector<Nanoseconds> by_origin(b == 0 ? 1 : BlockConfigs(c.candidates, blocks[b - 1]).size());
      graph.build(strategy, settled, blocks[b], &table.at(b, joint[b]));
      const Nanoseconds bound = graph.bound(INT64_MAX, by_origin);
      known = by_origin[b == 0 ? 0 : joint[b - 1]];
      EXPECT_THAT(bound, Le(known));
      EXPECT_THAT(known, Le(time)) << "before block " << b;
    }
    EXPECT_THAT(known, Ge(time / 4)) << "a bound that says so little proves nothing";
  });
}

TEST(Exhaustive, BoundsHoldForRandomStrategies) {
  expect_bounds_hold(SearchCase("lenet", "p100-4x4:1"), {16, 64});
  expect_bounds_hold(SearchCase("lenet:batch=4096", "k80-16x4:1"), {4, 8});
  expect_bounds_hold(SearchCase("lenet:batch=16", "levels:2@50GB/s,2@2GB/s@5us"), {1, 1});
  expect_bounds_hold(SearchCase("mlp:batch=12,layers=3,features=36,hidden=60", "levels:3@1GB/s,2@1GB/s"),
                     {4, 8});
  expect_bounds_hold(SearchCase(residual(), "levels:2@10GB/s,2@1GB/s"), {4, 8});
  expect_bounds_hold(SearchCase("rnnlm:batch=16,steps=2,layers=2,hidden=64,vocab=97", "levels:2@10GB/s@1us"),
                     {4, 8});
  expect_bounds_hold(SearchCase("rnnlm:batch=4096,steps=3,layers=1,hidden=32,vocab=64", "levels:2@10GB/s"),
                     {1, 2});
}

// The same operator by operator, for graphs that are no chains.
TEST(Exhaustive, BoundsHoldWithoutATable) {
  for (const char* model : {"gpt:batch=16,layers=2,sequence=16,hidden=64,heads=4,vocab=97",
                            "resnet50:batch=16,image=32", "rnnlm:batch=32,steps=3,hidden=64,vocab=100"}) {
    const SearchCase c(model, "levels:2@10GB/s,3@1GB/s@2us");
    SCOPED_TRACE(c.graph.name());
    Evaluator evaluator(c.graph, c.costs, PlanOptions{});
    PartialGraph graph(evaluator.contents());
    for_each_seed(10, [&](Rng& rng) {
      Strategy strategy;
      for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
        strategy.push_back(c.candidates.random(OperatorId(i), rng));
      }
      const BoundStrategy bound = evaluator.contents().bind(strategy);
      const Nanoseconds time = evaluator.evaluate(bound).time;
      std::vector<bool> settled(strategy.size(), false);
      std::vector<Nanoseconds> by_origin(1);
      for (std::size_t i = strategy.size(); i-- > 0;) {
        settled[i] = true;
        graph.build(bound, settled, {OperatorId(i)}, nullptr);
        EXPECT_THAT(graph.bound(INT64_MAX, by_origin), Le(time)) << c.graph.operators()[i].name;
      }
    });
  }
}

TEST(Exhaustive, BlocksFollowTheGraph) {
  const auto blocks_of = [](const OperatorGraph& graph) {
    std::vector<std::vector<std::string>> names;
    for (const auto& ops : chain_of_blocks(graph)) {
      names.emplace_back();
      for (const OperatorId op : ops) names.back().push_back(graph.op(op).name);
    }
    return names;
  };
  using Names = std::vector<std::vector<std::string>>;
  EXPECT_EQ(blocks_of(make_zoo_model("mlp:layers=1")), (Names{{"layer1.linear"}, {"classifier"}, {"loss"}}));
  EXPECT_EQ(blocks_of(make_zoo_model("rnnlm:steps=2,layers=1")),
            (Names{{"step1.embedding", "step2.embedding"},
                   {"step1.lstm1", "step2.lstm1"},
                   {"step1.projection", "step2.projection"},
                   {"step1.loss", "step2.loss"}}));
  EXPECT_EQ(blocks_of(residual()), (Names{{"linear"}, {"relu", "sum"}}));
}

TEST(Exhaustive, StopsAtItsBudget) {
  const SearchCase c("lenet", "p100-4x4:1");
  SearchBudget budget;
  budget.proposals = 500;
  const SearchOutcome outcome =
      exhaustive(c.graph, c.costs, PlanOptions{}, c.candidates, {c.single()}, budget, {});
  EXPECT_FALSE(outcome.proven);
  EXPECT_THAT(outcome.proposals, testing::AllOf(Ge(500), Le(600)));
  ASSERT_TRUE(outcome.best.has_value());
  EXPECT_THAT(outcome.found_by, testing::AnyOf("single-device", "exhaustive"));
}

TEST(Exhaustive, StopsBeforeItHasBegun) {
  const SearchCase c("lenet", "p100-4x4:1");
  const Deadline passed(0);
  const KeepTo keep(passed);
  const SearchOutcome outcome =
      exhaustive(c.graph, c.costs, PlanOptions{}, c.candidates, {c.single()}, {}, {});
  EXPECT_FALSE(outcome.proven);
  EXPECT_FALSE(outcome.best.has_value());
}

TEST(Exhaustive, StopsWhenToldTo) {
  const SearchCase c("lenet", "p100-4x4:1");
  std::int64_t seen = 0;
  const SearchOutcome outcome = exhaustive(c.graph, c.costs, PlanOptions{}, c.candidates, {c.single()}, {},
                                           [&](const SearchProgress& p) {
                                             seen = p.proposals;
                                             return p.proposals < 2000;
                                           });
  EXPECT_FALSE(outcome.proven);
  EXPECT_THAT(seen, testing::AllOf(Ge(2000), Le(outcome.proposals)));
}

TEST(Exhaustive, SameInputSameOutcome) {
  const SearchCase c("mlp:batch=64,layers=2,hidden=512", "levels:2@20GB/s,2@5GB/s");
  const SearchOutcome a = c.exhaustive(), b = c.exhaustive();
  ASSERT_TRUE(a.best && b.best);
  EXPECT_EQ(a.best->plan, b.best->plan);
  EXPECT_EQ(a.proposals, b.proposals);
}

TEST(Exhaustive, TellsHowItImproved) {
  const SearchCase c("mlp:batch=64,layers=2,hidden=512", "levels:2@20GB/s,2@5GB/s");
  const SearchOutcome outcome = c.exhaustive();
  ASSERT_FALSE(outcome.history.empty());
  EXPECT_EQ(static_cast<std::int64_t>(outcome.history.size()), outcome.accepted);
  EXPECT_EQ(outcome.history.back().best, outcome.best->evaluation.time);
  EXPECT_LE(outcome.history.back().proposals, outcome.proposals);
  for (std::size_t i = 1; i < outcome.history.size(); ++i) {
    EXPECT_LT(outcome.history[i].best, outcome.history[i - 1].best);
    EXPECT_GT(outcome.history[i].proposals, outcome.history[i - 1].proposals);
    EXPECT_GE(outcome.history[i].seconds, outcome.history[i - 1].seconds);
  }
}

// Unrolled over many steps, a block has too many joint configs for a table.
TEST(Exhaustive, WorksWithoutATable) {
  SearchCase c("rnnlm:batch=64,steps=5,layers=1,hidden=64,vocab=64", "levels:2@10GB/s");
  SearchBudget budget;
  budget.proposals = 3000;
  const SearchOutcome outcome =
      exhaustive(c.graph, c.costs, PlanOptions{}, c.candidates, {c.single()}, budget, {});
  EXPECT_FALSE(outcome.proven);
  ASSERT_TRUE(outcome.best.has_value());
  EXPECT_THAT(outcome.best->evaluation.time,
              Le(Evaluator(c.graph, c.costs, PlanOptions{}).evaluate(c.single().strategy).time));
}

}  // namespace
}  // namespace pipesim
