#include "search/mcmc/mcmc.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/search/search_case.h"
#include "tests/sim/random_graph.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

using testing::Ge;
using testing::Le;

// Starts from a single device, far from the best; no baseline gives the answer away.
void expect_optimum_for_ten_seeds(const SearchCase& c, std::int64_t proposals) {
  const SearchOutcome proof = c.exhaustive();
  ASSERT_TRUE(proof.proven);
  const Evaluation single = Evaluator(c.graph, c.costs, {}).evaluate(c.single().strategy);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SearchOutcome outcome = c.mcmc(proposals, seed);
    EXPECT_EQ(outcome.best->evaluation, proof.best->evaluation)
        << "seed " << seed << ", from " << single.time;
  }
}

SLOW_TEST(Mcmc, FindsTheProvenOptimumOfLeNet) {
  expect_optimum_for_ten_seeds(SearchCase("lenet", "p100-4x4:1"), 100'000);
}

SLOW_TEST(Mcmc, FindsTheProvenOptimumOfALanguageModel) {
  expect_optimum_for_ten_seeds(
      SearchCase("rnnlm:batch=64,steps=2,layers=1,hidden=1024,vocab=4000", "p100-4x4:1"), 20'000);
}

// Links too slow for more than one device.
SLOW_TEST(Mcmc, StaysOnOneDeviceWhereThatIsOptimal) {
  const SearchCase c("rnnlm:batch=64,steps=2,layers=1,hidden=64,vocab=200", "levels:4@1GB/s@100us");
  EXPECT_EQ(c.exhaustive().best->evaluation, Evaluator(c.graph, c.costs, {}).evaluate(c.single().strategy));
  expect_optimum_for_ten_seeds(c, 1'000);
}

TEST(Mcmc, ExhaustiveIsNeverWorse) {
  for_each_seed(12, [&](Rng& rng) {
    const std::int64_t batch = std::int64_t{8} << rng.below(6), width = std::int64_t{16} << rng.below(8);
    const auto layers = static_cast<int>(1 + rng.below(3));
    const std::string model =
        fmt::format("mlp:batch={},layers={},features={},hidden={}", batch, layers, 2 * width, width);
    const std::string topology =
        fmt::format("levels:2@{}GB/s@{}us,2@{}GB/s", 1 << rng.below(8), rng.below(20), 1 << rng.below(6));
    SCOPED_TRACE(model + " on " + topology);
    const SearchCase c(model, topology);
    const SearchOutcome proof = c.exhaustive(), found = c.mcmc(2'000, rng.next());
    ASSERT_TRUE(proof.proven);
    EXPECT_THAT(proof.best->evaluation.time, Le(found.best->evaluation.time));
  });
}

void expect_same(const SearchOutcome& a, const SearchOutcome& b) {
  ASSERT_TRUE(a.best && b.best);
  EXPECT_EQ(a.best->plan, b.best->plan);
  EXPECT_EQ(a.best->evaluation, b.best->evaluation);
  EXPECT_EQ(a.found_by, b.found_by);
  EXPECT_EQ(a.proposals, b.proposals);
  EXPECT_EQ(a.accepted, b.accepted);
}

TEST(Mcmc, SameSeedSameOutcomeOnAnyNumberOfThreads) {
  for (const char* model : {"lenet", "gpt:batch=16,layers=2,sequence=16,hidden=64,heads=4,vocab=97"}) {
    const SearchCase c(model, "p100-4x4:1");
    const std::int64_t proposals = sanitized ? 500 : 2'000;
    const SearchOutcome one = c.mcmc(proposals, 7);
    expect_same(one, c.mcmc(proposals, 7));
    expect_same(one, c.mcmc(proposals, 7, 2));
    expect_same(one, c.mcmc(proposals, 7, 7));
    expect_same(c.mcmc(proposals, 7, 1, true), c.mcmc(proposals, 7, 3, true));
  }
}

// A tenth of what chains need from a single device.
TEST(Mcmc, AdditiveStartsSaveProposals) {
  const SearchCase c("rnntc:batch=64,steps=6,layers=4,hidden=512,vocab=1000", "levels:4@10GB/s,4@10GB/s");
  const SearchOutcome from_sums = c.mcmc(200, 1, 1, true);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_THAT(from_sums.best->evaluation.time, Le(c.mcmc(2'000, seed).best->evaluation.time)) << seed;
}

// One device holds too little for the start; the search leaves it behind and what it returns fits.
TEST(Mcmc, CrossesPlansThatDoNotFit) {
  const std::string model = "mlp:batch=64,layers=2,features=512,hidden=512,classes=512";
  const Topology roomy = make_topology("levels:4@10GB/s");
  TopologyParts parts = roomy.parts();
  for (DeviceKind& kind : parts.kinds) kind.memory = Bytes(5'000'000);
  const SearchCase c(model, Topology(std::move(parts)));
  Evaluator evaluator(c.graph, c.costs, {});
  ASSERT_FALSE(evaluator.evaluate(c.single().strategy).feasible());
  const SearchOutcome proof = c.exhaustive();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SearchOutcome outcome = c.mcmc(5'000, seed);
    ASSERT_TRUE(outcome.best.has_value()) << "seed " << seed;
    EXPECT_TRUE(outcome.best->evaluation.feasible());
    EXPECT_EQ(evaluator.evaluate(outcome.best->plan), outcome.best->evaluation);
    EXPECT_THAT(outcome.best->evaluation.time, Ge(proof.best->evaluation.time));
  }
}

// Between states of equal cost, as many go from b to a as from a to b.
TEST(Mcmc, ProposalsAreInBalance) {
  const SearchCase c("mlp:batch=2,layers=1,features=2,hidden=2,classes=2", "levels:2@1GB/s");
  const ConfigSpace space(c.candidates, {});
  const Moves moves(space);
  std::map<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>, double> seen;
  constexpr int kDraws = 40'000;
  Rng rng(1);
  const std::vector<std::vector<std::size_t>> states{{2, 2, 2}, {3, 3, 3}, {2, 2, 0},
                                                     {3, 2, 2}, {0, 0, 0}, {1, 1, 1}};
  Proposal proposal;
  for (const std::vector<std::size_t>& from : states) {
    for (int i = 0; i < kDraws; ++i) {
      moves.propose(from, first_rates(), rng, proposal);
      std::vector<std::size_t> to = from;
      for (const ConfigChange& change : proposal.changes) to[change.op.index()] = change.index;
      seen[{from, to}] += std::min(1.0, std::exp(proposal.log_ratio));  // as often as it is accepted
    }
  }
  for (const auto& a : states) {
    for (const auto& b : states) {
      const double there = seen[{a, b}], back = seen[{b, a}];
      EXPECT_THAT(there, testing::DoubleNear(back, 5 * std::sqrt(there + back) + 1));
    }
  }
}

}  // namespace
}  // namespace pipesim
