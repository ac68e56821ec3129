#include "taskgraph/expansion/expanded_strategy.h"

#include <gmock/gmock.h>

#include <algorithm>

#include <map>

#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

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
  PlanContents contents_{graph_, costs_, {}};
  ExpandedStrategy expanded_{contents_};
  const TaskGraph& tasks_ = expanded_.graph();
};

INSTANTIATE_TEST_SUITE_P(Zoo, OnSmallModels, testing::ValuesIn(small_models), ModelWord());

TEST_P(OnSmallModels, OneDeviceCommunicatesNothing) {
  Strategy strategy;
  for (const Operator& op : graph_.operators()) strategy.push_back(single_device(op, DeviceId(3)));
  expanded_.expand(contents_.bind(strategy), {.labels = Labels::Make});
  Nanoseconds sum = 0;
  for (std::size_t t = 0; t < tasks_.dag.num_tasks(); ++t) {
    EXPECT_FALSE(is_communication(tasks_.labels[t].kind)) << describe(tasks_.labels[t], graph_, topology_);
    sum += tasks_.dag.duration(TaskId(t));
  }
  EXPECT_EQ(simulate(tasks_.dag).makespan, sum);
}

TEST_P(OnSmallModels, GraphsDependOnTheStrategyAlone) {
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph_, rng, topology_.num_devices(), 8);
    const Strategy other = random_strategy(graph_, rng, topology_.num_devices(), 8);
    expanded_.expand(contents_.bind(strategy), {.labels = Labels::Make});
    const TaskGraph first = tasks_;
    expanded_.expand(contents_.bind(other), {.labels = Labels::Make});
    expanded_.expand(contents_.bind(strategy));
    EXPECT_TRUE(same(first.dag, tasks_.dag));
    EXPECT_THAT(tasks_.labels, IsEmpty());
    const PlanContents another(graph_, costs_, {});
    ExpandedStrategy fresh(another);
    fresh.expand(another.bind(strategy), {.labels = Labels::Make});
    EXPECT_TRUE(same(first.dag, fresh.dag()));
  });
}

TEST_P(OnSmallModels, DataParallelismSynchronisesAllParametersOnce) {
  const Strategy strategy = data_parallel(graph_, 4);
  const auto whole = [](const Operator& op, const ParallelConfig& c) {
    return op.factors.empty() || c.devices.size() == 4;
  };
  for (std::size_t i = 0; i < strategy.size(); ++i) ASSERT_TRUE(whole(graph_.operators()[i], strategy[i]));
  expanded_.expand(contents_.bind(strategy), {.labels = Labels::Make});
  std::int64_t bytes = 0, moved = 0;
  for (const TaskLabel& l : tasks_.labels) {
    if (l.kind == TaskKind::GradientSync) bytes += bytes_on_links(l.collective, l.group_size, l.size);
    if (l.kind == TaskKind::ForwardTransfer) moved += bytes_on_links(l.collective, l.group_size, l.size);
  }
  EXPECT_EQ(bytes, 2 * 3 * 4 * graph_.parameter_count());
  EXPECT_LE(moved, 1000);  // a few losses are added on one device; everything else stays
}

using TasksByKind = std::map<TaskKind, std::size_t>;

TasksByKind count_by_kind(const TaskGraph& tasks) {
  TasksByKind counts;
  for (const TaskLabel& l : tasks.labels) ++counts[l.kind];
  return counts;
}

TEST_P(OnSmallModels, MicrobatchesRepeatThePassesAndShareSynchronisationAndUpdate) {
  constexpr std::int32_t microbatches = 3;
  PlanOptions options;
  options.microbatches = microbatches;
  const PlanContents several(graph_, costs_, options);
  ExpandedStrategy expanded(several);
  const TaskGraph &once = tasks_, &thrice = expanded.graph();
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph_, rng, topology_.num_devices(), 8);
    expanded_.expand(contents_.bind(strategy), {.labels = Labels::Make});
    expanded.expand(several.bind(strategy), {.labels = Labels::Make});
    const TasksByKind one = count_by_kind(once);
    for (const auto& [kind, count] : count_by_kind(thrice)) {
      if (kind == TaskKind::Barrier) continue;
      const bool shared = kind == TaskKind::Update || kind == TaskKind::GradientSync;
      EXPECT_EQ(count, one.at(kind) * (shared ? 1 : microbatches)) << name_of(kind);
    }
    EXPECT_EQ(one.count(TaskKind::Barrier), 0U);
    EXPECT_LE(thrice.dag.num_edges(), (microbatches + 2) * once.dag.num_edges() + 4 * thrice.dag.num_tasks());
  });
}

// Whatever the schedule makes of it: a device has ended all of a microbatch before it begins the next.
TEST_P(OnSmallModels, MicrobatchesFollowEachOtherOnEveryDevice) {
  PlanOptions options;
  options.microbatches = 3;
  const PlanContents contents(graph_, costs_, options);
  ExpandedStrategy expanded(contents);
  const TaskGraph& tasks = expanded.graph();
  for_each_seed(4, [&](Rng& rng) {
    expanded.expand(contents.bind(random_strategy(graph_, rng, topology_.num_devices(), 8)),
                    {.labels = Labels::Make});
    tasks.dag.check_unique();
    const Timeline timeline = simulate(tasks.dag);
    EXPECT_THAT(check_schedule(tasks.dag, timeline), IsEmpty());
    std::map<std::pair<DeviceId, std::int32_t>, std::pair<Nanoseconds, Nanoseconds>> spans;
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& l = tasks.labels[t];
      if (is_communication(l.kind) || l.kind == TaskKind::Update) continue;
      const auto [it, fresh] =
          spans.try_emplace({l.device, l.microbatch}, timeline.start[t], timeline.end[t]);
      it->second = {std::min(it->second.first, timeline.start[t]),
                    std::max(it->second.second, timeline.end[t])};
    }
    for (const auto& [key, span] : spans) {
      const auto next = spans.find({key.first, key.second + 1});
      if (next == spans.end()) continue;
      EXPECT_LE(span.second, next->second.first) << "device " << key.first.value;
    }
  });
}

TEST_P(OnSmallModels, OneDeviceTakesEachMicrobatchAsLongAsTheFirst) {
  Strategy strategy;
  for (const Operator& op : graph_.operators()) strategy.push_back(single_device(op, DeviceId(3)));
  const auto makespan = [&](std::int32_t microbatches) {
    PlanOptions options;
    options.microbatches = microbatches;
    const PlanContents contents(graph_, costs_, options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(strategy));
    return simulate(expanded.dag()).makespan;
  };
  EXPECT_EQ(makespan(5) - makespan(4), makespan(2) - makespan(1));
  EXPECT_LE(makespan(2), 2 * makespan(1));  // one update
}

TEST(Plan, RefusesAnUnknownNumberOfConfigs) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  EXPECT_EQ(illegal(graph, {}, make_topology("p100-4x4")),
            fmt::format("0 configs for {} operators", graph.operators().size()));
}

}  // namespace
}  // namespace pipesim
