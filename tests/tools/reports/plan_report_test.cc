#include "tools/reports/plan_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tools/running/plan_run.h"
#include "topologies/device_kinds.h"
#include "topologies/gpu_share.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

Topology parts_on_a_bus(int number) {
  return divided_gpu("here", *find_built_in_device_kind("H200"), {number, 132 / number, 132});
}

// Two of four parts of a GPU add up gradients over the memory that all share.
TEST(PlanReport, OfDevicesOnABusCountsOnlyTheirOwnCommunication) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=16,layers=2,hidden=32,features=16,classes=8");
  const Topology two = make_topology("levels:2@10GB/s"), parts = parts_on_a_bus(4);
  const Strategy strategy = baseline_strategy("data-parallel", graph, CostModel(two));
  const CostModel costs(parts);
  Evaluator evaluator(graph, costs, {});
  const PlanReport report = report_plan(evaluator, evaluator.contents().bind(strategy));
  EXPECT_GT(report.communication[0], 0);
  EXPECT_EQ(report.communication[1], report.communication[0]);
  EXPECT_EQ(report.communication[2], 0);
  EXPECT_EQ(report.communication[3], 0);
}

// Sends, reduces inside operators, several microbatches, ways and versions of weights.
TEST(PlanReport, OfPipelinesOnABusCountsOnlyTheirOwnCommunication) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology few = parts_on_a_bus(4), more = parts_on_a_bus(6);
  const CostModel costs(more);
  int idle = 0;
  for_each_seed(20, [&](Rng& rng) {
    const RandomPipeline p = random_pipeline(graph, rng, few);
    Evaluator evaluator(graph, costs, p.options);
    const PlanReport report = report_plan(evaluator, evaluator.contents().bind(p.strategy));
    const std::vector<DeviceId> used = devices_of(p.strategy);
    std::vector<bool> meets(more.num_devices());
    const TaskGraph& tasks = evaluator.task_graph();
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      Nanoseconds held = 0;  // few bytes take no nanosecond
      for (const LaneUse use : tasks.dag.lanes(TaskId(t))) held += use.hold;
      if (!is_communication(label.kind) || held == 0) continue;
      meets[label.device.index()] = true;
      if (label.peer.valid()) meets[label.peer.index()] = true;
    }
    for (std::size_t d = 0; d < more.num_devices(); ++d) {
      const bool busy = report.communication[d] > 0;
      EXPECT_TRUE(busy || !meets[d]) << d;
      if (std::ranges::find(used, DeviceId(d)) == used.end()) {
        EXPECT_FALSE(busy) << d;
        ++idle;
      }
    }
  });
  EXPECT_GT(idle, 0);
}

TEST(PlanReport, SaysWhichRatesAreThoseOfAnotherType) {
  const auto rates = [](const char* type, const char* topology) {
    return borrowed_rates(make_zoo_model(std::string("gpt:layers=1,dtype=") + type), make_topology(topology));
  };
  EXPECT_EQ(rates("bfloat16", "dgx1-v100"), "V100-SXM2-16GB has no bfloat16: taken at its float16 rate");
  EXPECT_EQ(rates("float16", "k80-16x4:1"), "K80 has no float16: taken at its float32 rate");
  EXPECT_EQ(rates("float16", "dgx1-v100"), "");
  EXPECT_EQ(rates("float32", "dgx1-v100"), "");
  EXPECT_EQ(rates("bfloat16", "dgx-a100:2"), "");
}

}  // namespace
}  // namespace pipesim
