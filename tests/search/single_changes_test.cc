#include "search/single_changes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "search/baselines/baselines.h"
#include "tests/search/search_case.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t kAll = SIZE_MAX;

std::vector<OperatorId> in_graph_order(const OperatorGraph& graph) {
  std::vector<OperatorId> order;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) order.emplace_back(i);
  return order;
}

// Judges every change by a whole evaluation, and writes down which were asked for.
struct Trial {
  Trial(const SearchCase& search_case, Strategy from)
      : c(search_case), start(std::move(from)), evaluator(c.graph, c.costs, {}) {}

  Evaluation operator()(OperatorId op, std::size_t index) {
    tried.emplace_back(op, index);
    Strategy changed = start;
    changed[op.index()] = c.candidates.config(op, index);
    return evaluator.evaluate(changed);
  }

  SingleChanges changes(std::size_t most, const std::function<bool(std::int64_t)>& stop = {}) {
    return best_single_changes(c.candidates, start, evaluator.evaluate(start).time, in_graph_order(c.graph),
                               std::ref(*this), stop, most);
  }

  const SearchCase& c;
  Strategy start;
  Evaluator evaluator;
  std::vector<std::pair<OperatorId, std::size_t>> tried;
};

Strategy random_start_of(const CandidateSet& candidates, Rng& rng) {
  Strategy strategy;
  for (std::size_t i = 0; i < candidates.graph().operators().size(); ++i)
    strategy.push_back(candidates.random(OperatorId(i), rng));
  return strategy;
}

// The least time that each operator can reach alone, where that is less than the start's; sorted.
std::vector<Nanoseconds> times_by_brute_force(const SearchCase& c, const Strategy& start) {
  Evaluator evaluator(c.graph, c.costs, {});
  const Nanoseconds time = evaluator.evaluate(start).time;
  std::vector<Nanoseconds> times;
  for (std::size_t op = 0; op < start.size(); ++op) {
    Nanoseconds least = time;
    for (std::size_t i = 0; i < c.candidates.size(OperatorId(op)); ++i) {
      Strategy changed = start;
      changed[op] = c.candidates.config(OperatorId(op), i);
      const Evaluation e = evaluator.evaluate(changed);
      if (e.feasible()) least = std::min(least, e.time);
    }
    if (least < time) times.push_back(least);
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::vector<Nanoseconds> times_of(const SingleChanges& changes) {
  std::vector<Nanoseconds> times;
  for (const SingleChange& c : changes.best) times.push_back(c.evaluation.time);
  return times;
}

TEST(SingleChanges, AreThoseOfBruteForce) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=2", "levels:2@10GB/s,2@1GB/s");
  for_each_seed(8, [&](Rng& rng) {
    Trial trial(c, random_start_of(c.candidates, rng));
    const SingleChanges all = trial.changes(kAll);
    EXPECT_EQ(times_of(all), times_by_brute_force(c, trial.start));
    EXPECT_EQ(all.tried, all.all);
    SingleChanges two = trial.changes(2);
    ASSERT_LE(two.best.size(), 2U);
    EXPECT_TRUE(std::equal(two.best.begin(), two.best.end(), all.best.begin()));
  });
}

TEST(SingleChanges, TryEveryOtherConfigOnce) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=1", "p100-4x4");
  for_each_seed(5, [&](Rng& rng) {
    Trial trial(c, random_start_of(c.candidates, rng));
    const SingleChanges changes = trial.changes(kAll);
    std::set<std::pair<OperatorId, std::size_t>> distinct(trial.tried.begin(), trial.tried.end());
    std::size_t others = 0;
    for (std::size_t i = 0; i < trial.start.size(); ++i) {
      const OperatorId op(i);
      others += c.candidates.size(op) - 1;
      EXPECT_FALSE(distinct.contains({op, *c.candidates.find(op, trial.start[i])}));
    }
    EXPECT_THAT(distinct, SizeIs(others));
    EXPECT_THAT(trial.tried, SizeIs(others));
    EXPECT_EQ(changes.all, static_cast<std::int64_t>(others));
  });
}

TEST(SingleChanges, OperatorsTakeTurnsInTheOrderGiven) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=1", "p100-4x4:1");
  std::vector<OperatorId> order = in_graph_order(c.graph), tried;
  std::reverse(order.begin(), order.end());
  const auto note = [&](OperatorId op, std::size_t) {
    tried.push_back(op);
    return Evaluation{1000, Bytes(0)};
  };
  const auto n = static_cast<std::int64_t>(order.size());
  best_single_changes(
      c.candidates, c.single().strategy, 1000, order, note,
      [&](std::int64_t count) { return count == 2 * n; }, 5);
  std::vector<OperatorId> twice = order;
  twice.insert(twice.end(), order.begin(), order.end());
  EXPECT_EQ(tried, twice);
}

TEST(SingleChanges, StopAfterSoManyTries) {
  const SearchCase c("lenet", "p100-4x4:1");
  Trial trial(c, c.single().strategy);
  const SingleChanges changes = trial.changes(5, [](std::int64_t tried) { return tried >= 7; });
  EXPECT_EQ(changes.tried, 7);
  EXPECT_THAT(trial.tried, SizeIs(7));
  EXPECT_GT(changes.all, 7);
  EXPECT_EQ(trial.changes(5, [](std::int64_t) { return true; }).tried, 0);
}

// An operator whose split differs from that of its kind is first tried with the split of the others.
TEST(SingleChanges, BeginWithWhatOthersOfTheKindHave) {
  const SearchCase c("lenet", "p100-4x4:1");
  Strategy start = baseline_strategy("data-parallel", c.graph, c.costs);
  std::vector<OperatorId> convolutions;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (c.graph.operators()[i].kind == "conv2d") convolutions.emplace_back(i);
  }
  ASSERT_THAT(convolutions, SizeIs(2));
  const OperatorId odd = convolutions[1];
  const ParallelConfig usual = start[odd.index()];
  start[odd.index()] = single_device(c.graph.op(odd), DeviceId(2));
  Trial trial(c, start);
  best_single_changes(
      c.candidates, start, trial.evaluator.evaluate(start).time, std::vector{odd}, std::ref(trial),
      [](std::int64_t tried) { return tried == 1; }, 1);
  EXPECT_THAT(trial.tried, ElementsAre(std::pair(odd, *c.candidates.find(odd, usual))));
}

TEST(SingleChanges, WhatDoesNotFitNeverCounts) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=1", "p100-4x4:1");
  const auto faster_but_too_large = [](OperatorId, std::size_t) { return Evaluation{1, Bytes(1)}; };
  EXPECT_THAT(best_single_changes(c.candidates, c.single().strategy, 1000, in_graph_order(c.graph),
                                  faster_but_too_large, {}, 5)
                  .best,
              IsEmpty());
}

// A proven optimum can't be improved at all.
SLOW_TEST(SingleChanges, NoneHelpsAnOptimum) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=1", "levels:2@10GB/s");
  const SearchOutcome proof = c.exhaustive();
  ASSERT_TRUE(proof.proven);
  const SingleChanges changes = Trial(c, proof.best->plan).changes(5);
  EXPECT_THAT(changes.best, IsEmpty());
  EXPECT_EQ(changes.tried, changes.all);
}

// A config that is not among the candidates, as plans written by hand have, does not count as one of them.
TEST(SingleChanges, StartMayLieOutsideTheSet) {
  const SearchCase c("mlp:batch=32,hidden=64,layers=1", "p100-4x4:1");
  Strategy start = c.single().strategy;
  start[0].devices = {DeviceId(3), DeviceId(1)};
  start[0].replicas = 2;
  ASSERT_FALSE(c.candidates.find(OperatorId(0), start[0]));
  Trial trial(c, start);
  const SingleChanges changes = trial.changes(kAll);
  EXPECT_EQ(times_of(changes), times_by_brute_force(c, start));
  std::size_t all = c.candidates.size(OperatorId(0));
  for (std::size_t i = 1; i < start.size(); ++i) all += c.candidates.size(OperatorId(i)) - 1;
  EXPECT_THAT(trial.tried, SizeIs(all));
}

}  // namespace
}  // namespace pipesim
