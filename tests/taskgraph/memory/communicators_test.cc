#include "taskgraph/moving/communicators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/find_folding.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using DeviceSet = std::set<DeviceId>;

// The sets of devices of every task that runs, and who sends.
class CommunicatorOracle {
 public:
  explicit CommunicatorOracle(const ExpandedStrategy& expanded) {
    for (std::int32_t m = 0; m < expanded.microbatches(); ++m) {
      for (const BoundOperator* b : expanded.contents().strategy_of(m, expanded.strategy())) add(*b);
    }
    for (const Wiring& w : expanded.wirings()) {
      for (const CommunicationTask& t : w.plan->tasks) add(t.kind, {t.group.begin(), t.group.end()});
    }
  }
  [[nodiscard]] std::int32_t of(DeviceId device) const {
    const auto has = [&](const DeviceSet& s) { return s.contains(device); };
    return static_cast<std::int32_t>(std::count_if(sets_.begin(), sets_.end(), has)) +
           (senders_.contains(device) ? 1 : 0);
  }

 private:
  void add(Collective kind, const DeviceSet& group) {
    if (kind == Collective::Send) {
      senders_.insert(group.begin(), group.end());
    } else {
      sets_.insert(group);
    }
  }
  // Members of a ring follow each other.
  void add(const BoundOperator& bound) {
    std::map<DeviceId, DeviceId> next;
    for (const PassWork* work : {&bound.forward, &bound.backward_input, &bound.backward_weight}) {
      for (const InnerExchange& e : work->exchanges) {
        if (e.task.kind == Collective::Send) {
          next[e.task.group[0]] = e.task.group[1];
        } else {
          add(e.task.kind, {e.task.group.begin(), e.task.group.end()});
        }
      }
    }
    for (const auto& [from, to] : next) {
      DeviceSet ring{from};
      for (DeviceId d = to; d != from; d = next.at(d)) ring.insert(d);
      sets_.insert(ring);
    }
  }
  std::set<DeviceSet> sets_;
  DeviceSet senders_;
};

TEST(DeviceGroupTable, KeepsEachGroupOnce) {
  DeviceGroupTable groups;
  const DeviceGroupId pair = groups.intern({DeviceId(5), DeviceId(2)});
  const DeviceGroupId three = groups.intern({DeviceId(2), DeviceId(5), DeviceId(1)});
  EXPECT_NE(pair, three);
  EXPECT_EQ(groups.intern({DeviceId(2), DeviceId(5)}), pair);
  EXPECT_EQ(groups.size(), 2);
  EXPECT_EQ(groups[pair].front(), DeviceId(2));
  EXPECT_EQ(groups[three].size(), 3);
}

TEST(CommunicatorCount, CountsAGroupOnceUntilNothingNeedsIt) {
  DeviceGroupTable groups;
  CommunicatorList list(groups);
  list.add(Collective::AllReduce, std::vector{DeviceId(0), DeviceId(1)});
  list.add(Collective::AllGather, std::vector{DeviceId(1), DeviceId(0)});
  list.add(Collective::Send, std::vector{DeviceId(1), DeviceId(2)});
  list.add(Collective::Send, std::vector{DeviceId(2), DeviceId(3)});
  const Communicators first = list.list();
  list.add(Collective::AllToAll, std::vector{DeviceId(0), DeviceId(1)});
  list.add_ring({DeviceId(1), DeviceId(3)});
  const Communicators second = list.list();
  EXPECT_EQ(first.groups.size(), 1);
  EXPECT_EQ(second.groups.size(), 2);
  EXPECT_FALSE(second.senders.valid());
  CommunicatorCount count(groups, 4);
  const auto of_all = [&] {
    return std::vector{count.of(DeviceId(0)), count.of(DeviceId(1)), count.of(DeviceId(2)),
                       count.of(DeviceId(3))};
  };
  count.add(first);
  count.add(first);
  EXPECT_EQ(of_all(), (std::vector{1, 2, 1, 1}));
  count.add(second);
  EXPECT_EQ(of_all(), (std::vector{1, 3, 1, 2}));
  count.add(first, -1);
  EXPECT_EQ(of_all(), (std::vector{1, 3, 1, 2}));
  count.add(first, -1);
  EXPECT_EQ(of_all(), (std::vector{1, 2, 0, 1}));
}

// All microbatches.
TEST(Communicators, AreTheDistinctGroupsOfAllTasks) {
  std::int64_t most = 0;
  for (const char* model : small_models) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(12, [&](Rng& rng) {
      RandomPipeline plan = random_pipeline(graph, rng, topology);
      if (rng.below(2) == 0) {
        const PlanOptions options = plan.options;
        plan.options.state_sharding = random_state_sharding(rng);
        if (illegal(graph, plan.strategy, plan.options, topology)) plan.options = options;
      }
      const PlanContents contents(graph, costs, plan.options);
      const BoundStrategy bound = contents.bind(plan.strategy);
      ExpandedStrategy expanded(contents);
      expanded.expand(bound);
      const CommunicatorOracle oracle(expanded);
      const std::vector<DeviceMemory> peaks = peak_memory(expanded, simulate(expanded.dag()));
      for (std::size_t d = 0; d < peaks.size(); ++d) {
        EXPECT_EQ(peaks[d].communicators, oracle.of(DeviceId(d)));
        most = std::max<std::int64_t>(most, peaks[d].communicators);
      }
    });
  }
  EXPECT_GT(most, 2);
}

// Tensor-parallel parts, copies and sends.
TEST(Communicators, OfAFoldedPlanAreThoseOfTheWholePlan) {
  const OperatorGraph graph = make_zoo_model(kReplicatedGpt);
  const Topology topology = make_topology("dgx-a100:4");
  const CostModel costs(topology);
  for (const ReplicaShape& shape : {ReplicaShape{8, 1, 4}, {4, 2, 4}, {8, 2, 2}, {1, 4, 8}}) {
    const ReplicaPlan plan = plan_in_both(graph, shape, "1f1b");
    const PlanContents contents(graph, costs, plan.options);
    const BoundStrategy bound = contents.bind(plan.strategy);
    const auto folding = find_folding(contents, bound);
    ASSERT_TRUE(folding);
    ExpandedStrategy whole(contents), folded(contents);
    whole.expand(bound);
    folded.expand(folding->strategy(), {.folding = &*folding});
    const CommunicatorOracle oracle(whole);
    const CommunicatorCount count = communicators(folded);
    std::int32_t most = 0;
    for (std::size_t d = 0; d < topology.num_devices(); ++d) {
      EXPECT_EQ(count.of(DeviceId(d)), oracle.of(DeviceId(d)));
      most = std::max(most, count.of(DeviceId(d)));
    }
    EXPECT_GE(most, 2);
  }
}

}  // namespace
}  // namespace pipesim
