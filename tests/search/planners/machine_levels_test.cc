#include "search/planners/machine_levels.h"

#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "search/pipelines/pipelined_strategy.h"
#include "tests/refusal.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Levels = std::vector<std::pair<std::int64_t, double>>;

Levels levels_of(const char* topology) {
  Levels levels;
  for (const MachineLevel& level : machine_levels(make_topology(topology)))
    levels.emplace_back(level.machines, level.bandwidth.value);
  return levels;
}

TEST(MachineLevels, AreThoseOfTheTopology) {
  EXPECT_EQ(levels_of("levels:4@1GB/s"), (Levels{{4, 1e9}}));
  EXPECT_EQ(levels_of("levels:4@10GB/s,2@1.25GB/s"), (Levels{{4, 10e9}, {2, 1.25e9}}));
  EXPECT_EQ(levels_of("levels:2@20GB/s,3@10GB/s,2@1GB/s"), (Levels{{2, 20e9}, {3, 10e9}, {2, 1e9}}));
  ASSERT_EQ(levels_of("levels:1@1GB/s").size(), 1U);
  EXPECT_EQ(levels_of("levels:1@1GB/s")[0].first, 1);
}

TEST(MachineLevels, RefuseWhatIsNoHierarchy) {
  const std::string message = refusal([] { machine_levels(make_topology("dgx1-v100")); });
  EXPECT_NE(message.find("no hierarchy of equal groups"), std::string::npos) << message;
}

StageGroup devices(const std::vector<std::size_t>& numbers) {
  StageGroup group;
  for (const std::size_t n : numbers) group.emplace_back(n);
  return group;
}

TEST(DataParallelStages, UseAsManyDevicesAsTheSamplesAllow) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=16,features=12,classes=8");
  const Topology topology = make_topology("levels:8@1GB/s");
  Pipeline pipeline{"1f1b", std::vector<std::int32_t>(graph.operators().size(), 1)};
  pipeline.stage_of.front() = 0;
  const PipelinedStrategy made =
      data_parallel_stages(graph, topology, pipeline, {devices({0, 1, 2}), devices({3, 4, 5, 6})});
  EXPECT_EQ(made.strategy.front().devices, devices({0, 1}));
  EXPECT_EQ(made.strategy.back().devices, devices({3, 4, 5, 6}));
  PlanOptions options;
  options.pipeline = made.pipeline;
  EXPECT_EQ(illegal(graph, made.strategy, options, topology).value_or("legal"), "legal");
}

}  // namespace
}  // namespace pipesim
