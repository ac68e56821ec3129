#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "search/additive/additive_starts.h"
#include "search/intra/check_answer.h"
#include "search/intra/solve.h"
#include "tests/search/intra/random_instance.h"
#include "tests/search/search_case.h"

namespace pipesim {
namespace {

using testing::AnyOf;
using testing::Ge;
using testing::Le;
using testing::SizeIs;

struct Additive : SearchCase {
  ConfigSpace space{candidates, {single().strategy}};
  MoveUnits units = repeated_operators(candidates);
  Evaluator evaluator{graph, costs, {}};
  std::vector<std::size_t> first = space.indices(single().strategy);

  using SearchCase::SearchCase;
  [[nodiscard]] AdditiveCosts additive() { return {space, units, evaluator, {first}}; }
  [[nodiscard]] std::vector<ScoredConfigs> starts() {
    return additive_starts(space, units, evaluator, {first}, first, [] { return true; });
  }
};

// Planning what the solution moves, and solving again, ends at what planning everything finds.
TEST(AdditiveCosts, EndAtTheLeastPlannedSum) {
  Additive c("mlp:batch=64,layers=1,features=256,hidden=256,classes=16", "levels:2@10GB/s@5us,2@1GB/s@20us");
  AdditiveCosts lazy = c.additive(), all = c.additive();
  const auto least = [](const AdditiveCosts& costs) { return solve(costs.instance({}, costs.all())); };
  IntraSolution found = least(lazy);
  const WideCost bound = found.cost;
  while (lazy.plan(found.answer, lazy.all())) found = least(lazy);
  std::vector<IntraAnswer> choices;
  const IntraInstance before = all.instance({}, all.all());
  visit_answers(before, before.nodes.size(), [&](const IntraAnswer& answer) { choices.push_back(answer); });
  const std::size_t every = choices.size() / 20'000 + 1;
  for (const IntraAnswer& choice : choices) all.plan(choice, all.all());
  EXPECT_EQ(least(all).cost, found.cost);
  EXPECT_THAT(bound, Le(found.cost));
  EXPECT_LT(2 * lazy.planned(), all.planned());
  const IntraInstance instance = all.instance({}, all.all());
  for (std::size_t i = 0; i < choices.size(); i += every)
    EXPECT_THAT(check_answer(instance, choices[i]).cost, Ge(found.cost));
}

// One operator after the other, as the sum counts: what a chain of operators takes without overlap.
TEST(AdditiveCosts, AreWhatASingleDeviceTakes) {
  Additive c("mlp:batch=4096,layers=2,features=1024,hidden=1024,classes=16", "levels:4@10GB/s");
  AdditiveCosts additive = c.additive();
  const IntraAnswer choice(c.units.size(), 0);  // that of the given strategy comes first
  ASSERT_EQ(additive.configs(choice), c.first);
  additive.plan(choice, additive.all());
  const double sum = AdditiveCosts::kUnit *
                     static_cast<double>(check_answer(additive.instance({}, additive.all()), choice).cost);
  const double simulated = to_seconds(c.evaluator.evaluate(c.single().strategy).time).value;
  EXPECT_THAT(sum, Le(simulated));  // without the updates of weights
  EXPECT_THAT(sum, Ge(0.8 * simulated));
}

// Parts of a model add up to it, but for what travels between them.
TEST(AdditiveCosts, OfPartsAddUp) {
  Additive c("gpt:batch=8,layers=4,hidden=64,heads=4,vocab=64,sequence=32", "levels:4@10GB/s");
  const AdditiveCosts additive = c.additive();
  std::vector<bool> first(c.graph.operators().size(), false), second = first;
  for (std::size_t i = 0; i < first.size(); ++i) (i < first.size() / 2 ? first : second)[i] = true;
  const AdditiveCounts a = additive.counts_of(first), b = additive.counts_of(second);
  const auto sum = [](const std::vector<double>& n) { return std::accumulate(n.begin(), n.end(), 0.0); };
  for (std::size_t u = 0; u < a.operators.size(); ++u) {
    for (std::size_t i = 0; i < a.operators[u].size(); ++i)
      EXPECT_EQ(a.operators[u][i] + b.operators[u][i], additive.all().operators[u][i]);
    for (std::size_t w = 0; w < a.weights[u].size(); ++w)
      EXPECT_EQ(a.weights[u][w] + b.weights[u][w], additive.all().weights[u][w]);
  }
  const double across = sum(additive.all().tensors) - sum(a.tensors) - sum(b.tensors);
  EXPECT_THAT(across, Ge(1));
  EXPECT_THAT(across, Le(3));  // the residual stream, and what is added to it
}

TEST(AdditiveCosts, SpreadUnitsOverDevices) {
  Additive c("rnntc:batch=64,steps=3,layers=4,hidden=256,vocab=100", "levels:4@10GB/s");
  AdditiveCosts additive = c.additive();
  const std::vector<std::size_t> configs = additive.spread(IntraAnswer(c.units.size(), 0));
  std::set<DeviceId> layers;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const ParallelConfig config = c.space.config(OperatorId(i), configs[i]);
    ASSERT_THAT(config.devices, SizeIs(1));
    if (c.graph.operators()[i].name.starts_with("step1.lstm")) layers.insert(config.devices.front());
  }
  EXPECT_THAT(layers, SizeIs(4));
}

TEST(AdditiveStarts, AreWhatTheyAreSaidToBe) {
  for (const char* model : {"rnnlm:batch=256,steps=3,layers=2,hidden=512,vocab=4000", "lenet:batch=4096"}) {
    SCOPED_TRACE(model);
    Additive c(model, "levels:4@100GB/s@1us");
    const std::vector<ScoredConfigs> starts = c.starts();
    ASSERT_FALSE(starts.empty());
    const Nanoseconds single = c.evaluator.evaluate(c.single().strategy).time;
    EXPECT_LT(starts.front().evaluation.time, single);
    std::set<std::vector<std::size_t>> distinct;
    Nanoseconds before = 0;
    for (const ScoredConfigs& s : starts) {
      const Strategy strategy = c.space.strategy(s.plan);
      EXPECT_EQ(illegal(c.graph, strategy, c.topology), std::nullopt);
      EXPECT_EQ(c.evaluator.evaluate(strategy), s.evaluation);
      EXPECT_THAT(s.evaluation.time, Ge(before));
      before = s.evaluation.time;
      distinct.insert(s.plan);
    }
    EXPECT_THAT(distinct, SizeIs(starts.size()));
    const std::vector<ScoredConfigs> again = c.starts();  // whatever the evaluator remembers
    ASSERT_THAT(again, SizeIs(starts.size()));
    for (std::size_t i = 0; i < starts.size(); ++i) EXPECT_EQ(again[i].plan, starts[i].plan);
  }
}

// Memory for a quarter of the model: what does not fit is no start beside what does.
TEST(AdditiveStarts, EndWhenAsked) {
  Additive c("mlp:batch=64,layers=1,features=256,hidden=256,classes=16", "levels:2@10GB/s@5us,2@1GB/s@20us");
  const auto starts =
      additive_starts(c.space, c.units, c.evaluator, {c.first}, c.first, [] { return false; });
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts.front().plan, c.first);
}

TEST(AdditiveStarts, FitWhereSomeDo) {
  TopologyParts parts = make_topology("levels:4@10GB/s").parts();
  for (DeviceKind& kind : parts.kinds) kind.memory = Bytes(5'000'000);
  Additive c("mlp:batch=64,layers=2,features=512,hidden=512,classes=512", Topology(std::move(parts)));
  ASSERT_FALSE(c.evaluator.evaluate(c.single().strategy).feasible());
  for (const ScoredConfigs& s : c.starts()) EXPECT_TRUE(s.evaluation.feasible());
}

}  // namespace
}  // namespace pipesim
