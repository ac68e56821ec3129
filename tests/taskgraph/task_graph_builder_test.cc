#include "taskgraph/task_graph_builder.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/dataflow.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

using testing::IsEmpty;
using Sizes = std::vector<std::int64_t>;

constexpr const char* small_models[] = {
    "mlp:batch=8,layers=2,hidden=16,features=12,classes=8",
    "lenet:batch=8",
    "gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8",
    "llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24",
    "mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24",
    "nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24",
    "rnntc:batch=8,steps=3,hidden=8,embedded=8,vocab=24",
    "resnet50:batch=8,image=64"};

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

std::size_t repeated_keys(const TaskDag& dag) {
  std::vector<TaskKey> keys(dag.keys().begin(), dag.keys().end());
  std::sort(keys.begin(), keys.end());
  return static_cast<std::size_t>(keys.end() - std::unique(keys.begin(), keys.end()));
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
  EXPECT_THAT(Dataflow(graph_, strategy, tasks).faults(), IsEmpty());
}

TEST_P(OnSmallModels, RandomStrategiesGiveSoundGraphs) {
  for_each_seed(8, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph_, rng, topology_.num_devices(), 8);
    ASSERT_EQ(illegal(graph_, strategy, topology_), std::nullopt);
    const BoundStrategy bound = builder_.bind(strategy);
    TaskGraph tasks;
    builder_.build(bound, tasks, TaskGraphBuilder::Labels::Make);
    EXPECT_EQ(repeated_keys(tasks.dag), 0U);
    EXPECT_THAT(Dataflow(graph_, strategy, tasks).faults(), IsEmpty());

    const Timeline timeline = simulate(tasks.dag);
    EXPECT_THAT(check_schedule(tasks.dag, timeline), IsEmpty());
    const std::vector<DeviceMemory> peaks = peak_memory(builder_, bound, timeline);
    const std::vector<Bytes> allocated = allocated_memory(builder_, bound);
    for (std::size_t d = 0; d < peaks.size(); ++d) EXPECT_LE(peaks[d].peak, allocated[d]);
  });
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

TEST(TaskGraphBuilder, AShardThatNobodyReadsStillRunsForwardBeforeBackward) {
  // Rows 4 to 7 of the linear are sliced away: no gradient ever comes to device 1.
  GraphBuilder b("sliced", 8);
  const TensorId y = b.add("linear", "fc", {b.data("x", {8, 6})}, {{"out", Sizes{4}}});
  const std::vector<TensorId> parts = b.add_all("split", "parts", {y}, {{"axis", 0}, {"sizes", Sizes{4, 4}}});
  b.add("cross_entropy", "loss", {parts[0], b.data("labels", {4}, DataType::Int64)});
  const Expansion e(b.build(), "p100-4x4", {{"fc", {{{"b", 2}}, {0, 1}}}});
  EXPECT_THAT(Dataflow(e.graph, e.strategy, e.tasks).faults(), IsEmpty());
  for (std::size_t t = 0; t < e.tasks.labels.size(); ++t) {
    if (e.tasks.labels[t].kind != TaskKind::BackwardWeight) continue;
    EXPECT_GT(e.tasks.dag.num_predecessors(TaskId(t)), 0) << describe(e.tasks.labels[t], e.graph, e.topology);
  }
}

TEST(TaskGraphBuilder, OneTransferServesAllConsumersOfALayout) {
  GraphBuilder b("shared", 4);
  const TensorId x = b.add("linear", "p", {b.data("x", {4, 6})}, {{"out", Sizes{8}}});
  for (const char* name : {"q", "k", "v"}) b.add("linear", name, {x}, {{"out", Sizes{4}}});
  const Split other{{}, {1}};
  const Expansion e(b.build(), "p100-4x4", {{"q", other}, {"k", other}, {"v", other}});
  EXPECT_EQ(e.bytes_of(TaskKind::ForwardTransfer), 4 * 8 * 4);
  EXPECT_EQ(e.bytes_of(TaskKind::BackwardTransfer), 4 * 8 * 4);  // the three gradients are added on device 1
}

TEST(TaskGraphBuilder, RefusesAnUnknownNumberOfConfigs) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  EXPECT_EQ(illegal(graph, {}, make_topology("p100-4x4")),
            fmt::format("0 configs for {} operators", graph.operators().size()));
}

}  // namespace
}  // namespace pipesim
