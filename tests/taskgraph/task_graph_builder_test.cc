#include "taskgraph/task_graph_builder.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets.h"

namespace pipesim {
namespace {

using testing::IsEmpty;

bool same(const TaskDag& a, const TaskDag& b) {
  if (a.num_tasks() != b.num_tasks() || a.num_edges() != b.num_edges()) return false;
  for (std::size_t t = 0; t < a.num_tasks(); ++t) {
    const TaskId id(t);
    if (a.key(id) != b.key(id) || a.duration(id) != b.duration(id)) return false;
    const auto x = a.successors(id), y = b.successors(id);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    const LaneUses u = a.lanes(id), v = b.lanes(id);
    if (u.size() != v.size()) return false;
    for (std::size_t l = 0; l < u.size(); ++l) {
      if (u[l] != v[l]) return false;
    }
  }
  return true;
}

class OnSmallModels : public testing::TestWithParam<const char*> {
 protected:
  const OperatorGraph graph_ = make_zoo_model(GetParam());
  const Topology topology_ = make_topology("p100-4x4:2");
  const CostModel costs_{topology_};
  TaskGraphBuilder builder_{graph_, costs_, {}};
};

INSTANTIATE_TEST_SUITE_P(Zoo, OnSmallModels, testing::ValuesIn(small_models), [](const auto& name) {
  const std::string text = name.param;
  std::string word = text.substr(0, text.find(':'));
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
});

TEST_P(OnSmallModels, OneDeviceCommunicatesNothing) {
  Strategy strategy;
  for (const Operator& op : graph_.operators()) strategy.push_back(single_device(op, DeviceId(3)));
  TaskGraph tasks;
  builder_.build(builder_.bind(strategy), tasks, TaskGraphBuilder::Labels::Make);
  Nanoseconds sum = 0;
  for (std::size_t t = 0; t < tasks.dag.num_tasks(); ++t) {
    EXPECT_FALSE(is_communication(tasks.labels[t].kind)) << describe(tasks.labels[t], graph_, topology_);
    sum += tasks.dag.duration(TaskId(t));
  }
  EXPECT_EQ(simulate(tasks.dag).makespan, sum);
}

TEST_P(OnSmallModels, GraphsDependOnTheStrategyAlone) {
  TaskGraph first, again, fresh;
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph_, rng, topology_.num_devices(), 8);
    const Strategy other = random_strategy(graph_, rng, topology_.num_devices(), 8);
    builder_.build(builder_.bind(strategy), first, TaskGraphBuilder::Labels::Make);
    builder_.build(builder_.bind(other), again, TaskGraphBuilder::Labels::Make);
    builder_.build(builder_.bind(strategy), again, TaskGraphBuilder::Labels::Leave);
    EXPECT_TRUE(same(first.dag, again.dag));
    EXPECT_THAT(again.labels, IsEmpty());
    TaskGraphBuilder another(graph_, costs_, {});
    another.build(another.bind(strategy), fresh, TaskGraphBuilder::Labels::Make);
    EXPECT_TRUE(same(first.dag, fresh.dag));
  });
}

TEST_P(OnSmallModels, DataParallelismSynchronisesAllParametersOnce) {
  const Strategy strategy = data_parallel(graph_, 4);
  const auto whole = [](const Operator& op, const ParallelConfig& c) {
    return op.factors.empty() || c.devices.size() == 4;
  };
  for (std::size_t i = 0; i < strategy.size(); ++i) ASSERT_TRUE(whole(graph_.operators()[i], strategy[i]));
  TaskGraph tasks;
  builder_.build(builder_.bind(strategy), tasks, TaskGraphBuilder::Labels::Make);
  std::int64_t bytes = 0, moved = 0;
  for (const TaskLabel& l : tasks.labels) {
    if (l.kind == TaskKind::GradientSync) bytes += bytes_on_links(l.collective, l.group_size, l.size);
    if (l.kind == TaskKind::ForwardTransfer) moved += bytes_on_links(l.collective, l.group_size, l.size);
  }
  EXPECT_EQ(bytes, 2 * 3 * 4 * graph_.parameter_count());
  EXPECT_LE(moved, 1000);  // a few losses are added on one device; everything else stays
}

TEST(TaskGraphBuilder, RefusesAnUnknownNumberOfConfigs) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  EXPECT_EQ(illegal(graph, {}, make_topology("p100-4x4")),
            fmt::format("0 configs for {} operators", graph.operators().size()));
}

}  // namespace
}  // namespace pipesim
