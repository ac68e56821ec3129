#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/executor/equality_case.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"
#include "tests/taskgraph/simulated_plan.h"

namespace pipesim {
namespace {

// Operators of the first half on the nodes 0 and 1, those of the second on the nodes 2 and 3, each split
// anyhow.
Strategy in_two_halves(const OperatorGraph& graph, Rng& rng) {
  constexpr std::size_t kHalf = most_devices / 2;
  Strategy strategy = without_rings(random_strategy(graph, rng, kHalf, kHalf));
  for (std::size_t o = strategy.size() / 2; o < strategy.size(); ++o) {
    for (DeviceId& d : strategy[o].devices) d = DeviceId(d.index() + kHalf);
  }
  return strategy;
}

bool has_turns(const CommunicationPlan& plan) {
  return std::ranges::any_of(
      plan.tasks, [](const CommunicationTask& t) { return t.turn != RedistributionStep::no_turn; });
}

// Tensors between the halves go the way that is found for all their pieces together.
TEST(BetweenMeshes, AModelOnTwoComputesWhatTheUnsplitOneDoes) {
  const Topology topology = make_topology("levels:2@20GB/s,4@1GB/s");
  const CostModel costs(topology);
  int with_turns = 0;
  for (const char* model : {"mlp:batch=8,layers=4,hidden=16,features=12,classes=8", "lenet:batch=4",
                            "gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8"}) {
    EqualityCase c{std::string(model)};
    Reference reference(c.graph, costs, c.world, c.source);
    for_each_seed(15, [&](Rng& rng) {
      const Strategy strategy = in_two_halves(c.graph, rng);
      reference.check(strategy);
      SimulatedPlan plan(c.graph, costs, {}, strategy);
      plan.build(1);
      with_turns += std::ranges::any_of(plan.expanded.wirings(),
                                        [](const Wiring& w) { return w.plan && has_turns(*w.plan); })
                        ? 1
                        : 0;
    });
  }
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(with_turns, sanitized ? 1 : 5);
  }
}

}  // namespace
}  // namespace pipesim
