#include "search/planners/alpa.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "topologies/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

std::vector<std::size_t> numbers(const StageGroup& group) {
  std::vector<std::size_t> list;
  for (const DeviceId d : group) list.push_back(d.index());
  return list;
}

TEST(Alpa, SubmeshesAreParts0fNodesOrWholeOnes) {
  EXPECT_THAT(submesh_sizes(make_topology("p100-4x4")), ElementsAre(1, 2, 4, 8, 12, 16));
  EXPECT_THAT(submesh_sizes(make_topology("levels:6@10GB/s,2@1GB/s")), ElementsAre(1, 2, 4, 6, 12));
  EXPECT_THAT(submesh_sizes(make_topology("dapple-b:3")), ElementsAre(1, 2, 3));
}

TEST(Alpa, LargeStagesGetTheirNodesFirst) {
  const Topology topology = make_topology("p100-4x4:2");
  const std::vector<StageGroup> groups = place_submeshes(topology, {1, 4, 2, 1});
  EXPECT_THAT(numbers(groups[0]), ElementsAre(6));
  EXPECT_THAT(numbers(groups[1]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(numbers(groups[2]), ElementsAre(4, 5));
  EXPECT_THAT(numbers(groups[3]), ElementsAre(7));
  EXPECT_THAT(numbers(place_submeshes(topology, {3, 3, 2})[2]), ElementsAre(3, 7));  // no node has room
}

// Linears of 1 kB of output under 48 kB of weights, gradients and momentum, on devices of 2 MB.
TEST(Alpa, CountsWhatIsKeptAndWhatRunsAgain) {
  constexpr std::int64_t kMemory = 2'000'000, kOutput = 4 * 64 * 4, kWeights = 3 * 64 * 64 * 4,
                         kAny = 1 << 20;
  constexpr std::int32_t kLinears = 4;
  GraphBuilder b("squares", 4);
  TensorId x = b.data("x", {4, 64});
  for (std::int32_t l = 0; l < kLinears; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::vector<std::int64_t>{64}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  TopologyParts parts = make_topology("p100-4x4:1").parts();
  for (DeviceKind& kind : parts.kinds) kind.memory = Bytes(kMemory);
  const Topology topology(parts);
  const CostModel costs(topology);
  for (const Recompute::Kind kind : {Recompute::Kind::None, Recompute::Kind::Full}) {
    PlanOptions options;
    options.microbatches = 8;
    options.recompute.kind = kind;
    const auto plan = alpa(graph, costs, options, kLinears, nullptr);
    ASSERT_TRUE(plan);
    std::int32_t looked_at = 0;
    for (const StageOption& o : plan->options) {
      if (o.devices != 1) continue;
      ++looked_at;
      const std::int64_t n = o.last - o.first + 1, left = kMemory - n * kWeights;
      const std::int64_t full = o.first == 0 ? kAny : (left - n * kOutput) / kOutput - 1;
      EXPECT_EQ(o.most_successors, kind == Recompute::Kind::Full ? full : left / (n * kOutput) - 1)
          << o.first << " to " << o.last;
    }
    EXPECT_EQ(looked_at, kLinears * (kLinears + 1) / 2);
  }
}

// What attention makes and keeps is in memory once, however many microbatches are in flight.
TEST(Alpa, RunsMoreMicrobatchesWhereAttentionRunsAgain) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=4,layers=4,hidden=64,heads=8,vocab=100,sequence=128,attention=scores");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  const auto options_of = [&](Recompute::Kind kind) {
    PlanOptions options;
    options.recompute.kind = kind;
    return alpa(graph, costs, options, 4, nullptr).value().options;
  };
  const std::vector<StageOption> none = options_of(Recompute::Kind::None),
                                 selective = options_of(Recompute::Kind::Selective);
  ASSERT_EQ(none.size(), selective.size());
  for (std::size_t i = 0; i < none.size(); ++i)
    EXPECT_GT(2 * selective[i].most_successors, 3 * none[i].most_successors);
}

// The whole partition's time is near what the simulator says of the plan, and its stages use all devices.
TEST(Alpa, PredictsItsPlanRoughly) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=4,layers=6,hidden=512,heads=8,vocab=1000,sequence=128");
  for (const char* name : {"dapple-c:4", "p100-4x4:1"}) {
    const Topology topology = make_topology(name);
    const CostModel costs(topology);
    PlanOptions options;
    options.microbatches = 8;
    std::vector<std::int64_t> looked_at;
    const auto plan =
        alpa(graph, costs, options, 8, [&](std::int64_t devices) { looked_at.push_back(devices); });
    ASSERT_TRUE(plan) << name;
    EXPECT_EQ(looked_at, submesh_sizes(topology));
    std::vector<StageMesh> meshes;
    std::vector<std::int64_t> sizes;
    std::vector<std::int32_t> last_layers;
    for (const std::size_t number : plan->partition.stages) {
      sizes.push_back(plan->options[number].devices);
      last_layers.push_back(plan->options[number].last);
    }
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), 4);
    const std::vector<StageGroup> groups = place_submeshes(topology, sizes);
    Pipeline pipeline;
    pipeline.stage_of = stages_of_layers(plan->cluster_of, last_layers);
    for (std::size_t s = 0; s < groups.size(); ++s)
      meshes.push_back({groups[s], plan->options[plan->partition.stages[s]].config});
    PipelinedStrategy made = staged_strategy(graph, topology, std::move(pipeline), meshes);
    options.pipeline = std::move(made.pipeline);
    ASSERT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt);
    Evaluator evaluator(graph, costs, options);
    const double simulated = to_seconds(evaluator.evaluate(made.strategy).time).value;
    EXPECT_LT(plan->partition.total.value, 1.5 * simulated) << name;
    EXPECT_GT(plan->partition.total.value, 0.5 * simulated) << name;
  }
}

}  // namespace
}  // namespace pipesim
