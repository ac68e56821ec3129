#include <gmock/gmock.h>

#include <thread>

#include "models/zoo/zoo.h"
#include "taskgraph/binding/plan_contents.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

struct Planned {
  std::vector<LaneUse> loads;
  std::vector<Nanoseconds> durations;
  bool operator==(const Planned&) const = default;
};

Planned plan_all(const PlanContents& contents, const Strategy& strategy) {
  const BoundStrategy bound = contents.bind(strategy);
  Planned all;
  const auto add = [&](const CommunicationPlan& plan) {
    all.loads.insert(all.loads.end(), plan.loads.begin(), plan.loads.end());
    for (const CommunicationTask& t : plan.tasks) all.durations.push_back(t.duration);
  };
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const OperatorId op(i);
    all.loads.insert(all.loads.end(), bound[i]->loads.begin(), bound[i]->loads.end());
    if (contents.backward().owned_weights(op).empty()) continue;
    const OwnedUpdates& work = contents.update_work(op, bound);
    all.durations.insert(all.durations.end(), work.durations.begin(), work.durations.end());
    for (const TensorId weight : contents.backward().owned_weights(op))
      add(contents.sync_plan(weight, bound));
  }
  for (std::size_t t = 0; t < contents.graph().tensors().size(); ++t) {
    if (!contents.backward().has_backward(TensorId(t))) continue;
    LayoutIds terms;
    contents.list_gradient_terms(TensorId(t), bound, terms);
    add(contents.transfer_plan(TensorId(t), terms,
                               gradient_layout(contents.backward().producing_use(TensorId(t)), bound),
                               Moved::Gradient));
  }
  return all;
}

// Threads that plan the same at the same time get what one gets alone.
TEST(PlanContents, ThreadsPlanAsOneDoes) {
  const OperatorGraph graph = make_zoo_model("lenet:batch=32");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  for_each_seed(3, [&](Rng& rng) {
    std::vector<Strategy> strategies;
    for (int i = 0; i < 40; ++i) strategies.push_back(random_strategy(graph, rng, topology.num_devices(), 8));
    PlanContents shared(graph, costs, {});
    constexpr std::size_t kThreads = 4;
    std::vector<std::vector<Planned>> planned(kThreads);
    {
      std::vector<std::jthread> threads;
      for (std::vector<Planned>& mine : planned) {
        threads.emplace_back([&shared, &strategies, &mine] {
          for (const Strategy& s : strategies) mine.push_back(plan_all(shared, s));
        });
      }
    }
    PlanContents alone(graph, costs, {});
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const Planned expected = plan_all(alone, strategies[i]);
      EXPECT_FALSE(expected.durations.empty());
      for (const std::vector<Planned>& mine : planned) EXPECT_EQ(mine[i], expected);
    }
  });
}

}  // namespace
}  // namespace pipesim
