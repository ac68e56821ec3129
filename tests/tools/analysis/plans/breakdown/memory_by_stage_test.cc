#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/zoo/zoo.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tools/analysis/plans/breakdown/memory_by_stage.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/render/plans/breakdown_text.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// The devices of a stage, from the plan.
std::set<DeviceId> devices_of_stage(const RandomPipeline& plan, std::int32_t stage) {
  std::set<DeviceId> devices;
  for (std::size_t i = 0; i < plan.strategy.size(); ++i) {
    if (plan.options.pipeline->stage_of[i] == stage)
      devices.insert(plan.strategy[i].devices.begin(), plan.strategy[i].devices.end());
  }
  return devices;
}

TEST(MemoryByStage, IsThatOfTheFullestDeviceAndAddsUp) {
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  int shared = 0;
  for_each_seed(40, [&](Rng& rng) {
    const RandomPipeline plan = random_pipeline(graph, rng, topology);
    Evaluator evaluator(graph, costs, plan.options);
    const PlanReport report = report_plan(evaluator, evaluator.contents().bind(plan.strategy));
    std::set<std::int32_t> told;
    for (const StageMemory& of : report.memory_of_stages) {
      shared += of.stages.size() > 1 ? 1 : 0;
      EXPECT_EQ(of.memory, report.memory[of.device.index()]);
      EXPECT_EQ(of.reserved, of.memory.peak);  // nothing is known of what frameworks take
      Bytes sum;
      for (const Bytes b : of.memory.at_peak) sum += b;
      EXPECT_EQ(sum, of.memory.peak);
      for (const std::int32_t stage : of.stages) {
        EXPECT_TRUE(told.insert(stage).second);
        const std::set<DeviceId> devices = devices_of_stage(plan, stage);
        EXPECT_TRUE(devices.contains(of.device));
        for (const DeviceId d : devices) EXPECT_LE(report.memory[d.index()].peak, of.memory.peak);
      }
    }
    EXPECT_EQ(told.size(), static_cast<std::size_t>(plan.options.pipeline->num_stages()));
  });
  EXPECT_TRUE(shared > 0 || sanitized);  // then there are fewer seeds
}

// Peaks of these sizes, all weights but for one byte of activations.
StageMemory stage(std::int32_t number, std::int64_t bytes) {
  StageMemory of{{number}, DeviceId(static_cast<std::size_t>(number)), {Bytes(bytes), 0, {}}, {}};
  of.memory.at_peak[static_cast<std::size_t>(MemoryCategory::Weights)] = Bytes(bytes - 1);
  of.memory.at_peak[static_cast<std::size_t>(MemoryCategory::Activations)] = Bytes(1);
  return of;
}

TEST(MemoryByStage, TableLeavesOutCategoriesThatNobodyHolds) {
  std::vector<StageMemory> stages{stage(0, 1001), stage(1, 2001)};
  stages[0].stages = {0, 2};
  EXPECT_EQ(memory_table(stages, make_topology("dgx2")),
            "  memory of stage   0,2     1\n"
            "  fullest device   gpu0  gpu1\n"
            "  weights          1 kB  2 kB\n"
            "  activations       1 B   1 B\n"
            "  peak             1 kB  2 kB\n");
}

TEST(MemoryByStage, TableOfManyStagesHasFirstFullestAndLast) {
  std::vector<StageMemory> stages;
  for (std::int32_t s = 0; s < 12; ++s) stages.push_back(stage(s, s == 5 ? 9001 : 1001));
  const std::string some = memory_table(stages, make_topology("dgx2"));
  EXPECT_TRUE(some.starts_with("  memory of stage     0     5     11\n")) << some;
  stages[0] = stage(0, 10'001);  // the first is the fullest
  EXPECT_TRUE(memory_table(stages, make_topology("dgx2")).starts_with("  memory of stage      0     11\n"));
}

TEST(MemoryByStage, TableSaysWhatFrameworksTake) {
  const Topology topology = make_topology("dgx-h100");
  std::vector<StageMemory> stages{stage(0, 10'000'000'000)};
  stages[0].memory.communicators = 3;  // of 688 MiB; 1.2 GB for the context
  stages[0].reserved = Bytes(10'300'000'000);
  EXPECT_EQ(memory_table(stages, topology),
            "  memory of stage            0\n"
            "  fullest device          gpu0\n"
            "  weights                10 GB\n"
            "  activations              1 B\n"
            "  peak                   10 GB\n"
            "  reserved             10.3 GB\n"
            "  communicators    2.16 GB (3)\n"
            "  with context         13.7 GB\n");
}

StageMemory reserving(StageMemory of, std::int64_t bytes) {
  of.reserved = Bytes(bytes);
  return of;
}

TEST(MemoryByStage, JsonHasEveryCategory) {
  const nlohmann::ordered_json json = json_of({reserving(stage(3, 101), 104)}, make_topology("dgx-h100"));
  ASSERT_EQ(json.size(), 1);
  EXPECT_EQ(json[0]["stages"].dump(), "[3]");
  EXPECT_EQ(json[0]["device"], "gpu3");
  EXPECT_EQ(json[0]["peak_bytes"], 101);
  EXPECT_EQ(json[0]["communicators"], 0);
  EXPECT_EQ(json[0]["communicators_bytes"], 0);
  EXPECT_EQ(json[0]["reserved_bytes"], 104);
  EXPECT_EQ(json[0]["process_bytes"], 1'200'000'104);
  EXPECT_EQ(json[0]["at_peak_bytes"].size(), kMemoryCategories);
  EXPECT_EQ(json[0]["at_peak_bytes"]["weights"], 100);
  EXPECT_EQ(json[0]["at_peak_bytes"]["optimizer_state"], 0);
}

}  // namespace
}  // namespace pipesim
