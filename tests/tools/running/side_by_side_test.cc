#include "tools/running/side_by_side.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "tools/running/plan_run.h"
#include "topologies/device_kinds.h"
#include "topologies/gpu_share.h"

namespace pipesim {
namespace {

constexpr const char* kGptOfOneLayer =
    "gpt:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,positions=8";

Topology parts(int number) {
  return divided_gpu("here", *find_built_in_device_kind("H200"), {number, 8, 132});
}

Plan plan_of(Strategy strategy) {
  Plan plan;
  plan.strategy = std::move(strategy);
  return plan;
}

// What every device computes, as measurements are keyed.
std::map<DeviceId, std::multiset<std::string>> keys_of(const OperatorGraph& graph, const Strategy& strategy) {
  std::map<DeviceId, std::multiset<std::string>> keys;
  std::vector<Range> ranges;
  for (std::size_t op = 0; op < strategy.size(); ++op) {
    const ShardGrid grid(graph.operators()[op], strategy[op]);
    for (std::size_t k = 0; k < strategy[op].devices.size(); ++k) {
      grid.ranges(static_cast<std::int64_t>(k), ranges);
      keys[strategy[op].devices[k]].insert(
          operator_key(graph, graph.operators()[op], Pass::Forward, ranges, "part").str());
    }
  }
  return keys;
}

TEST(SideBySide, LetsAllPartsDoWhatASingleDeviceDoes) {
  const OperatorGraph graph = make_zoo_model(kGptOfOneLayer);
  const Topology topology = parts(8);
  const CostModel costs(topology);
  const Plan single = plan_of(baseline_strategy("single-device", graph, costs));
  ASSERT_EQ(devices_of(single.strategy).size(), 1U);
  const Strategy wide = side_by_side(graph, topology, single);
  EXPECT_EQ(devices_of(wide).size(), 8U);
  const auto alone = keys_of(graph, single.strategy).begin()->second;
  for (const auto& [device, keys] : keys_of(graph, wide)) EXPECT_EQ(keys, alone) << device.value;

  const PlanContents contents(graph, costs, single.options);
  ExpandedStrategy expanded(contents);
  const TaskGraph& tasks = expanded.graph();
  const BoundStrategy bound = contents.bind(wide);
  expanded.expand(bound, {.labels = Labels::Make});
  EXPECT_TRUE(std::ranges::none_of(tasks.labels, [](const TaskLabel& label) {
    return is_communication(label.kind);
  })) << "nobody needs what another computes";
}

// Copies are the plan itself on other devices.
TEST(SideBySide, CopiesWhatDevicesDoToThoseThatAreIdle) {
  const OperatorGraph graph = make_zoo_model(kGptOfOneLayer);
  for_each_seed(20, [&](Rng& rng) {
    const Plan plan = plan_of(random_strategy(graph, rng, 3, 3));
    const std::size_t used = devices_of(plan.strategy).size();
    const Topology topology = parts(8);
    const Strategy wide = side_by_side(graph, topology, plan);
    EXPECT_EQ(devices_of(wide).size(), 8 / used * used);
    EXPECT_EQ(illegal(graph, wide, plan.options, topology), std::nullopt);
    std::vector<std::multiset<std::string>> before, after;
    for (const auto& [device, keys] : keys_of(graph, plan.strategy)) before.push_back(keys);
    for (const auto& [device, keys] : keys_of(graph, wide)) after.push_back(keys);
    for (std::size_t d = 0; d < after.size(); ++d) EXPECT_EQ(after[d], before[d % used]);
  });
}

TEST(SideBySide, LeavesOtherPlansAsTheyAre) {
  const OperatorGraph graph = make_zoo_model(kGptOfOneLayer);
  const Topology topology = parts(2);
  const Plan both = plan_of(baseline_strategy("data-parallel", graph, CostModel(topology)));
  EXPECT_EQ(side_by_side(graph, topology, both), both.strategy);
  Plan pipeline = plan_of(baseline_strategy("single-device", graph, CostModel(topology)));
  pipeline.options.pipeline.emplace();
  EXPECT_EQ(side_by_side(graph, topology, pipeline), pipeline.strategy);
}

}  // namespace
}  // namespace pipesim
