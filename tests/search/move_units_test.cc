#include "search/move_units.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "search/mcmc/moves.h"
#include "tests/search/search_case.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::vector<std::string> names_of(const OperatorGraph& graph, const std::vector<OperatorId>& unit) {
  std::vector<std::string> names;
  for (const OperatorId op : unit) names.push_back(graph.op(op).name);
  return names;
}

TEST(MoveUnits, AreTheStepsOfARecurrentNetwork) {
  const SearchCase c("rnnlm:batch=32,steps=3,layers=1,hidden=64,vocab=200", "levels:2@10GB/s");
  const MoveUnits units = repeated_operators(c.candidates);
  std::set<OperatorId> seen;
  for (const std::vector<OperatorId>& unit : units) {
    EXPECT_THAT(unit, SizeIs(3));
    seen.insert(unit.begin(), unit.end());
  }
  EXPECT_EQ(seen.size(), c.graph.operators().size());
  EXPECT_THAT(names_of(c.graph, units.front()),
              ElementsAre("step1.embedding", "step2.embedding", "step3.embedding"));
}

TEST(MoveUnits, AreSingleOperatorsWhereNothingRepeats) {
  const SearchCase c("lenet", "levels:2@10GB/s");
  EXPECT_EQ(repeated_operators(c.candidates), single_operators(c.candidates));
}

// Repeats that can't be split alike are not changed together: a move gives all the same number.
TEST(MoveUnits, HaveTheSameConfigsByNumber) {
  for (const char* model :
       {"resnet50:batch=64", "gpt:batch=16,layers=3,sequence=16,hidden=64,heads=4,vocab=97", "nmt:steps=2"}) {
    const SearchCase c(model, "p100-4x4:1");
    for (const std::vector<OperatorId>& unit : repeated_operators(c.candidates)) {
      for (const OperatorId op : unit) {
        ASSERT_EQ(c.candidates.size(op), c.candidates.size(unit.front()));
        for (const std::size_t i : {std::size_t{0}, c.candidates.size(op) / 2, c.candidates.size(op) - 1})
          EXPECT_EQ(c.candidates.config(op, i), c.candidates.config(unit.front(), i));
      }
    }
  }
}

// From a state that is alike, every move leads to another one.
TEST(MoveUnits, StayAlike) {
  const SearchCase c("rnnlm:batch=32,steps=3,layers=2,hidden=64,vocab=200", "levels:2@10GB/s,2@1GB/s");
  const ConfigSpace space(c.candidates, {c.single().strategy});
  const MoveUnits units = repeated_operators(c.candidates);
  const Moves moves(space, units);
  for_each_seed(20, [&](Rng& rng) {
    std::vector<std::size_t> state(space.num_operators());
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = rng.below(c.candidates.size(OperatorId(i)));
    make_alike(c.candidates, units, state);
    Proposal proposal;
    int changed = 0;
    for (int n = 0; n < 200; ++n) {
      moves.propose(state, repeat_rates(), rng, proposal);
      for (const ConfigChange& change : proposal.changes) state[change.op.index()] = change.index;
      changed += proposal.changes.empty() ? 0 : 1;
      for (const std::vector<OperatorId>& unit : units) {
        for (const OperatorId op : unit) ASSERT_EQ(state[op.index()], state[unit.front().index()]);
      }
    }
    EXPECT_GT(changed, 50);
  });
}

}  // namespace
}  // namespace pipesim
