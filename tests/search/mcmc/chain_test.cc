#include "search/mcmc/chain.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <vector>

#include "tests/search/search_case.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::Gt;
using testing::Lt;

constexpr std::int64_t kNoLimit = INT64_MAX;
const Chain::Report go_on = [](std::int64_t, std::int64_t) { return true; };

ChainState state_at(std::vector<std::size_t> configs, std::uint64_t seed) {
  ChainState state;
  state.current.plan = std::move(configs);
  state.rng = Rng(seed);
  return state;
}

// All states of a small space in which units are alike, with their times.
std::map<std::vector<std::size_t>, double> all_times(const ConfigSpace& space, const MoveUnits& units,
                                                     Evaluator& evaluator) {
  std::map<std::vector<std::size_t>, double> times;
  std::vector<std::size_t> state(space.num_operators(), 0);
  const auto put = [&](const std::vector<OperatorId>& unit, std::size_t config) {
    for (const OperatorId op : unit) state[op.index()] = config;
  };
  for (std::size_t at = 0; at < units.size();) {
    times[state] = static_cast<double>(evaluator.evaluate(space.strategy(state)).time);
    for (at = 0; at < units.size(); ++at) {
      const OperatorId first = units[at].front();
      put(units[at], state[first.index()] + 1);
      if (state[first.index()] < space.size(first)) break;
      put(units[at], 0);
    }
  }
  return times;
}

// Σ (seen − expected)² / expected over groups of states of near equal cost, each expected 25 times at least.
struct ChiSquare {
  double statistic = 0;
  int groups = 0;
};
ChiSquare chi_square(const std::map<std::vector<std::size_t>, double>& times, double temperature,
                     const std::map<std::vector<std::size_t>, int>& seen, int samples) {
  std::multimap<double, std::vector<std::size_t>> by_time;
  double all = 0, least = INFINITY;
  for (const auto& [state, time] : times) by_time.emplace(time, state), least = std::min(least, time);
  for (const auto& [state, time] : times) all += std::exp((least - time) / temperature);
  ChiSquare result;
  double expected = 0, count = 0;
  for (const auto& [time, state] : by_time) {
    expected += samples * std::exp((least - time) / temperature) / all;
    if (const auto it = seen.find(state); it != seen.end()) count += it->second;
    if (expected < 25) continue;
    result.statistic += (count - expected) * (count - expected) / expected;
    ++result.groups;
    expected = count = 0;
  }
  return result;
}

// The distribution that Metropolis and Hastings promise: exp(−cost / T).
void expect_boltzmann(const SearchCase& c, const MoveUnits& units, const MoveRates& rates, int samples) {
  const ConfigSpace space(c.candidates, {});
  Evaluator evaluator(c.graph, c.costs, {});
  const auto times = all_times(space, units, evaluator);
  double mean = 0, squares = 0;
  for (const auto& [state, time] : times) mean += time / static_cast<double>(times.size());
  for (const auto& [state, time] : times)
    squares += (time - mean) * (time - mean) / static_cast<double>(times.size());
  const double temperature = std::sqrt(squares);
  ASSERT_THAT(temperature, Gt(0));

  const Moves moves(space, units);
  BoundConfigs configs(space, evaluator);
  Chain chain(moves, configs, {}, state_at(std::vector<std::size_t>(space.num_operators(), 0), 4));
  std::map<std::vector<std::size_t>, int> seen;
  for (int i = 0; i < samples; ++i) {
    chain.run({30, kNoLimit, temperature, rates}, go_on);  // 30 draws between two samples
    ++seen[chain.state().current.plan];
  }
  const ChiSquare found = chi_square(times, temperature, seen, samples);
  ASSERT_THAT(found.groups, Gt(10));
  EXPECT_THAT(found.statistic, Lt(found.groups + 4 * std::sqrt(2.0 * found.groups)));
}

void expect_boltzmann(const MoveRates& rates, int samples) {
  const SearchCase c("mlp:batch=4,layers=1,features=4,hidden=4,classes=2", "levels:2@1GB/s");
  expect_boltzmann(c, single_operators(c.candidates), rates, samples);
}

TEST(Chain, VisitsStatesAsTheirCostsDemand) { expect_boltzmann(first_rates(), sanitized ? 2'000 : 20'000); }

TEST(Chain, VisitsStatesOfRepeatsAsTheirCostsDemand) {
  const SearchCase c("rnnlm:batch=4,steps=2,layers=1,hidden=4,vocab=4", "levels:2@1GB/s");
  expect_boltzmann(c, repeated_operators(c.candidates), repeat_rates(), sanitized ? 2'000 : 20'000);
}

// Each kind alone keeps the distribution, but some do not reach every state: with some of Uniform they do.
TEST(Chain, EveryKindOfMoveKeepsTheDistribution) {
  for (std::size_t kind = 0; kind < kMoveKinds; ++kind) {
    SCOPED_TRACE(name_of(static_cast<MoveKind>(kind)));
    MoveRates rates = flexflow_rates();
    rates.weight[kind] += 3;
    expect_boltzmann(rates, sanitized ? 1'000 : 4'000);
  }
}

TEST(Chain, KnowsWhatItsStateCosts) {
  const SearchCase c("gpt:batch=8,layers=1,sequence=8,hidden=16,heads=4,vocab=48,positions=8", "p100-4x4:1");
  const ConfigSpace space(c.candidates, {c.single().strategy});
  Evaluator evaluator(c.graph, c.costs, {}), judge(c.graph, c.costs, {});
  const Moves moves(space);
  BoundConfigs configs(space, evaluator);
  Chain chain(moves, configs, {}, state_at(space.indices(c.single().strategy), 11));
  const double start = static_cast<double>(chain.state().current.evaluation.time);
  for (int i = 0; i < 50; ++i) {
    chain.run({20, kNoLimit, start / 50, first_rates()}, go_on);
    EXPECT_EQ(judge.evaluate(space.strategy(chain.state().current.plan)), chain.state().current.evaluation);
  }
  EXPECT_THAT(chain.state().accepted, Gt(50));
}

// With every proposal evaluated in full: giving up early and what is known of states change nothing.
TEST(Chain, TakesTheStepsOfMetropolisAndHastings) {
  const SearchCase c("lenet:batch=16", "p100-4x4:1");
  const ConfigSpace space(c.candidates, {c.single().strategy});
  const Moves moves(space);
  Evaluator evaluator(c.graph, c.costs, {}), judge(c.graph, c.costs, {});
  BoundConfigs configs(space, evaluator);
  std::vector<std::size_t> state = space.indices(c.single().strategy);
  Chain chain(moves, configs, {}, state_at(state, 3));
  std::map<std::vector<std::size_t>, double> times;
  const auto time_of = [&](const std::vector<std::size_t>& at) {
    const auto [it, fresh] = times.try_emplace(at);
    if (fresh) it->second = static_cast<double>(judge.evaluate(space.strategy(at)).time);
    return it->second;
  };
  Rng rng(3);
  Proposal proposal;
  const double start = time_of(state);
  for (const double temperature : {start / 30, start / 300, start / 30, start / 3e4}) {
    const int draws = sanitized ? 500 : 6'000;
    chain.run({draws, kNoLimit, temperature, first_rates()}, go_on);
    for (int draw = 0; draw < draws; ++draw) {
      moves.propose(state, first_rates(), rng, proposal);
      if (proposal.changes.empty()) continue;
      std::vector<std::size_t> changed = state;
      for (const ConfigChange& change : proposal.changes) changed[change.op.index()] = change.index;
      const double u = 1 - rng.uniform();
      if (time_of(changed) <= time_of(state) + temperature * (proposal.log_ratio - std::log(u)))
        state = changed;
    }
    ASSERT_EQ(chain.state().current.plan, state);
    ASSERT_EQ(chain.state().rng, rng);
  }
  EXPECT_THAT(chain.state().accepted, Gt(sanitized ? 20 : 100));
  EXPECT_THAT(chain.known(), Gt(sanitized ? 10 : 1'000));
}

// Plans that run operators again are evaluated in full.
TEST(Chain, ScoresWhatIsRunAgainAsTheJudgeDoes) {
  const SearchCase c("gpt:batch=8,layers=2,sequence=8,hidden=16,heads=4,vocab=48,positions=8", "p100-4x4:1");
  PlanOptions options;
  options.recompute.kind = Recompute::Kind::Full;
  const ConfigSpace space(c.candidates, {c.single().strategy});
  Evaluator evaluator(c.graph, c.costs, options), judge(c.graph, c.costs, options),
      plain(c.graph, c.costs, {});
  const Moves moves(space);
  BoundConfigs configs(space, evaluator);
  Chain chain(moves, configs, {}, state_at(space.indices(c.single().strategy), 11));
  const Evaluation start = chain.state().current.evaluation;
  EXPECT_GT(start.time, plain.evaluate(c.single().strategy).time);
  for (int i = 0; i < 10; ++i) {
    chain.run({10, kNoLimit, static_cast<double>(start.time) / 50, first_rates()}, go_on);
    EXPECT_EQ(judge.evaluate(space.strategy(chain.state().current.plan)), chain.state().current.evaluation);
  }
  EXPECT_THAT(chain.state().accepted, Gt(10));
}

// What is remembered of configs, layouts and transfers changes nothing but the time that is needed.
TEST(Chain, GoesOnAlikeWhenAllIsForgotten) {
  for (const std::int32_t microbatches : {1, 2}) {
    const SearchCase c("lenet:batch=16", "levels:2@1GB/s,2@500MB/s");
    PlanOptions options;
    options.microbatches = microbatches;
    const ConfigSpace space(c.candidates, {});
    const Moves moves(space);
    Evaluator remembering(c.graph, c.costs, options), forgetting(c.graph, c.costs, options);
    BoundConfigs remembered(space, remembering), forgotten(space, forgetting);
    const ChainState first = state_at(std::vector<std::size_t>(space.num_operators(), 0), 5);
    Chain a(moves, remembered, {}, first), b(moves, forgotten, {}, first);
    const ChainSlice slice{100, kNoLimit, 1e4, first_rates()};
    for (int i = 0; i < 8; ++i) {
      a.run(slice, go_on);
      EXPECT_TRUE(forgetting.forget(Bytes(0)));
      b.run(slice, go_on);
      EXPECT_EQ(a.state(), b.state());
    }
    EXPECT_THAT(a.state().accepted, Gt(0));
    EXPECT_FALSE(remembering.forget(Bytes(INT64_MAX)));
  }
}

TEST(MoveRates, FollowWhatIsAccepted) {
  MoveCounts counts;
  counts.proposed.fill(1000);
  counts.accepted.fill(10);
  const auto run = static_cast<std::size_t>(MoveKind::Run), alike = static_cast<std::size_t>(MoveKind::Alike),
             split = static_cast<std::size_t>(MoveKind::OperatorSplit);
  counts.accepted[run] = 0;
  counts.accepted[alike] = 300;
  counts.accepted[split] = 60;
  const MoveRates first = first_rates(), rates = adapted(first, counts);
  const auto change = [&](std::size_t kind) {
    return static_cast<double>(rates.weight[kind]) / static_cast<double>(first.weight[kind]);
  };
  EXPECT_DOUBLE_EQ(change(run), 64 / 4.0);
  EXPECT_DOUBLE_EQ(change(alike), 64 * 4.0);
  EXPECT_THAT(change(split), Gt(change(run)));
  EXPECT_THAT(change(split), Lt(change(alike)));
  EXPECT_EQ(rates.weight[static_cast<std::size_t>(MoveKind::Uniform)], 0U);
}

}  // namespace
}  // namespace pipesim
