#include "search/alpa/alpa.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/alpa/submeshes.h"
#include "search/evaluator.h"
#include "tests/search/alpa/placed_rows.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

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
  using enum Recompute::Kind;
  for (const Recompute::Kind kind : {None, Full, Stage}) {
    PlanOptions options;
    options.microbatches = 8;
    options.recompute.kind = kind;
    const auto plan = alpa(graph, costs, options, kLinears, nullptr);
    ASSERT_FALSE(plan.empty());
    std::int32_t looked_at = 0;
    for (const StageOption& o : plan.front().options) {
      if (o.devices != 1) continue;
      ++looked_at;
      const std::int64_t n = o.last - o.first + 1, left = kMemory - n * kWeights;
      const std::int64_t entering = n - (o.first == 0 ? 1 : 0);  // of linears, but of the first one
      const std::int64_t stage = o.first == 0 ? kAny : (left - n * kOutput) / kOutput - 1;
      const std::int64_t full = entering == 0 ? kAny : (left - kOutput) / (entering * kOutput) - 1;
      EXPECT_EQ(o.most_successors, kind == Stage  ? stage
                                   : kind == Full ? full
                                                  : left / (n * kOutput) - 1)
          << o.first << " to " << o.last;
    }
    EXPECT_EQ(looked_at, kLinears * (kLinears + 1) / 2);
  }
}

// The same on four devices that divide state: their parts are kept, and of two linears what is gathered.
TEST(Alpa, CountsDividedStateAndGatheredWeights) {
  constexpr std::int64_t kMemory = 2'000'000, kOutput = 64 * 4, kWeight = 64 * 64 * 4;
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
  struct Expected {
    const char* sharding;
    std::int64_t
        quarters;  // of weights that a linear keeps for good, of three kinds: weight, gradient, moment
  };
  for (const Expected& e : {Expected{"none", 12}, Expected{"zero1", 9}, Expected{"zero2", 6},
                            Expected{"zero3", 3}, Expected{"zero3,reshard=never", 3}}) {
    SCOPED_TRACE(e.sharding);
    PlanOptions options;
    options.microbatches = 8;
    options.state_sharding = parse_state_sharding(e.sharding);
    const auto plan = alpa(graph, costs, options, kLinears, nullptr);
    ASSERT_FALSE(plan.empty());
    int looked_at = 0;
    for (const StageOption& o : plan.front().options) {
      if (o.devices != 4 || o.config != 1) continue;
      ++looked_at;
      const std::int64_t n = o.last - o.first + 1;
      const bool zero3 = options.state_sharding.gathers_to_use(),
                 keep = options.state_sharding.keeps_gathered();
      const std::int64_t gathered = zero3 && !keep ? std::min<std::int64_t>(n, 2) * kWeight : 0,
                         kept = n * (kOutput + (keep ? kWeight : 0));
      const std::int64_t left = kMemory - n * e.quarters * kWeight / 4 - gathered;
      EXPECT_EQ(o.most_successors, left / kept - 1) << o.first << " to " << o.last;
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
  const auto options_of = [&](const Recompute& recompute) {
    PlanOptions options;
    options.recompute = recompute;
    return alpa(graph, costs, options, 4, nullptr).front().options;
  };
  const std::vector<StageOption> none = options_of({}), selective = options_of(Recompute::selective());
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
    ASSERT_FALSE(plan.empty()) << name;
    EXPECT_EQ(looked_at, submesh_sizes(topology));
    PipelinedStrategy made = placed_rows(graph, topology, plan.front(), "1f1b");
    std::size_t used = 0;
    for (const StageMesh& mesh : made.meshes) used += mesh.devices.size();
    EXPECT_EQ(used, 4);
    options.pipeline = std::move(made.pipeline);
    ASSERT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt);
    Evaluator evaluator(graph, costs, options);
    const double simulated = to_seconds(evaluator.evaluate(made.strategy).time).value;
    EXPECT_LT(plan.front().partition.total.value, 1.5 * simulated) << name;
    EXPECT_GT(plan.front().partition.total.value, 0.5 * simulated) << name;
  }
}

// Each pair of linears shares a weight, so stages of weights with versions end behind the second of one only.
TEST(Alpa, PlansWhatItsScheduleAllows) {
  GraphBuilder b("pairs", 16);
  TensorId x = b.data("x", {16, 256});
  constexpr int kPairs = 4;
  for (int l = 0; l < kPairs; ++l) {
    for (const char* half : {"a", "b"}) {
      x = b.add("linear", half + std::to_string(l), {x},
                {{"out", std::vector<std::int64_t>{256}}, {"bias", 0}}, {"w" + std::to_string(l)});
    }
  }
  const OperatorGraph graph = b.build();
  std::set<std::int32_t> stages;
  for (const char* system : {"levels:2@1GB/s", "dapple-c:4", "p100-4x4:2"}) {
    const Topology topology = make_topology(system);
    const CostModel costs(topology);
    PlanOptions options;
    options.microbatches = 8;
    for (const char* schedule : {"1f1b", "chimera", "pipedream", "2bw"}) {
      const auto plan = alpa(graph, costs, options, 5, nullptr, schedule);
      ASSERT_FALSE(plan.empty()) << system << " " << schedule;
      PipelinedStrategy made = placed_rows(graph, topology, plan.front(), schedule);
      stages.insert(made.pipeline.num_stages());
      options.pipeline = std::move(made.pipeline);
      EXPECT_EQ(illegal(graph, made.strategy, options, topology), std::nullopt) << system << " " << schedule;
    }
  }
  EXPECT_GT(*stages.rbegin(), 2);
}

// With random costs, the best pipeline of equal stages is the one found by trying all ways to cut.
TEST(Alpa, StagesThatGoBothWaysAreAlikeAndTheBestOfThose) {
  for_each_seed(40, [](Rng& rng) {
    const auto layers = static_cast<std::int32_t>(rng.between(2, 5));
    const std::int64_t devices = 2 * rng.between(1, 3);
    StageProblem problem{layers, devices, rng.between(1, 6), {}};
    for (std::int32_t first = 0; first < layers; ++first) {
      for (std::int32_t last = first; last < layers; ++last) {
        for (std::int64_t d = 1; d <= devices; ++d)
          problem.options.push_back(
              {first, last, 0, 1, d, Seconds(static_cast<double>(rng.between(1, 50))), rng.between(0, 5)});
      }
    }
    double best = std::numeric_limits<double>::infinity();
    const auto extend = [&](const auto& self, std::int32_t stages, std::int32_t begun, std::int32_t first,
                            double sum, double longest) -> void {
      if (begun == stages) {
        if (first == layers)
          best = std::min(best, sum + static_cast<double>(problem.microbatches - 1) * longest);
        return;
      }
      for (const StageOption& o : problem.options) {
        if (o.first != first || o.devices * stages != devices || o.most_successors < stages - 1 - begun)
          continue;
        self(self, stages, begun + 1, o.last + 1, sum + o.time.value, std::max(longest, o.time.value));
      }
    };
    for (std::int32_t stages = 2; stages <= devices; stages += 2) extend(extend, stages, 0, 0, 0.0, 0.0);
    const auto found = partition_for("chimera", problem);
    EXPECT_EQ(found ? found->total.value : std::numeric_limits<double>::infinity(), best);
    if (found) {
      EXPECT_EQ(found->stages.size() % 2, 0);
    }
  });
}

}  // namespace
}  // namespace pipesim
