#include "taskgraph/folding.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets.h"

namespace pipesim {
namespace {

/// How many tasks there are for each folded one; 1 where nothing is folded. Every task of the whole graph
/// must run when its class does.
double expect_folded_as_whole(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                              const Strategy& strategy) {
  TaskGraphBuilder builder(graph, costs, options);
  const BoundStrategy bound = builder.bind(strategy);
  TaskGraph whole, block;
  builder.build(bound, whole, TaskGraphBuilder::Labels::Leave);
  const Timeline all = simulate(whole.dag);
  const std::vector<DeviceMemory> peaks = peak_memory(builder, bound, all);
  builder.build_unordered(bound, block);
  const auto folding = Folding::find(builder, bound, block.dag);
  if (!folding) return 1;
  TaskDag folded;
  Timeline timeline;
  static_cast<void>(folding->build(builder, bound, options.microbatches, folded, timeline));
  timeline = simulate(folded);
  EXPECT_EQ(timeline.makespan, all.makespan);
  const std::size_t of_one = builder.tasks_of_one_microbatch(), of_one_folded = folding->classes_of_one();
  const auto microbatches = static_cast<std::size_t>(options.microbatches);
  for (std::size_t t = 0; t < of_one * (microbatches - 1) + block.dag.num_tasks(); ++t) {
    const std::size_t m = std::min(t / of_one, microbatches - 1);
    const std::size_t i = m * of_one_folded + static_cast<std::size_t>(folding->class_of()[t - m * of_one]);
    EXPECT_EQ(timeline.start[i], all.start[t]);
    EXPECT_EQ(timeline.end[i], all.end[t]);
    if (testing::Test::HasFailure()) break;
  }
  const TaskTimes times{timeline, options.microbatches, of_one_folded, folding->class_of()};
  EXPECT_EQ(peak_memory(builder, bound, times, SteadyState()), peaks);
  return static_cast<double>(whole.dag.num_tasks()) / static_cast<double>(folded.num_tasks());
}

// Stages drawn at random, samples or copies on all of their devices: some fold, all run as they do unfolded.
TEST(Folding, OfRandomPlansRunsAsTheWholePlan) {
  std::int64_t folded = 0;
  for (const char* model : small_models) {
    if (model == std::string_view("resnet50:batch=8,image=64")) continue;  // many tasks, nothing new
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : {"p100-4x4:2", "levels:2@10GB/s,2@0.1GB/s"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for_each_seed(8, [&](Rng& rng) {
        RandomPipeline p = random_pipeline(graph, rng, topology);
        std::vector<std::set<DeviceId>> of_stage(p.strategy.size());
        const auto devices_of = [&](std::size_t op) -> std::set<DeviceId>& {
          return of_stage[static_cast<std::size_t>(p.options.pipeline->stage_of[op])];
        };
        for (std::size_t op = 0; op < p.strategy.size(); ++op)
          devices_of(op).insert(p.strategy[op].devices.begin(), p.strategy[op].devices.end());
        for (std::size_t op = 0; op < p.strategy.size(); ++op) {
          ParallelConfig all = single_device(graph.operators()[op], DeviceId(0));
          all.devices.assign(devices_of(op).begin(), devices_of(op).end());
          const auto shards = static_cast<std::int32_t>(all.devices.size());
          all.degrees[0] = shards;
          if (illegal_degrees(graph.operators()[op], all.degrees)) {
            all.degrees[0] = 1;
            all.replicas = shards;
          }
          p.strategy[op] = all;
        }
        if (rng.below(3) == 0) p.options.pipeline.reset();
        if (illegal(graph, p.strategy, p.options, topology)) return;
        folded += expect_folded_as_whole(graph, costs, p.options, p.strategy) > 1 ? 1 : 0;
      });
    }
  }
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_THAT(folded, testing::Ge(1));
}

// Samples over replicas, factor f over the devices of a replica where the operator has it: Megatron-like.
ParallelConfig in_both(const Operator& op, std::int32_t first, std::int32_t replicas, std::int32_t parts) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  const auto try_degree = [&](std::size_t factor, std::int32_t degree) {
    config.degrees[factor] = degree;
    if (!illegal_degrees(op, config.degrees)) return true;
    config.degrees[factor] = 1;
    return false;
  };
  std::int32_t parts_done = 1, replicas_done = try_degree(0, replicas) ? replicas : 1;
  for (std::size_t f = 1; f < op.factors.size() && parts_done == 1; ++f)
    if (try_degree(f, parts)) parts_done = parts;
  config.replicas = replicas * parts / (replicas_done * parts_done);
  for (std::int32_t d = 0; d < replicas * parts; ++d) config.devices.emplace_back(first + d);
  return config;
}

TEST(Folding, TakesReplicasAndTheirPartsForOneDevice) {
  for (const char* model :
       {"gpt:batch=8,layers=2,hidden=64,heads=4,sequence=16,vocab=128,positions=16",
        "llama:batch=8,layers=2,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const auto n = static_cast<std::int32_t>(graph.operators().size());
    // In the first every device has a way of its own to the other stage; in the others those of a node share
    // one, so that only the replicas, which are nodes, are alike.
    for (const auto& [name, least] : {std::pair("dgx-a100:2", 6.0), std::pair("p100-4x4", 1.9),
                                      std::pair("levels:4@100GB/s,4@5GB/s", 1.9)}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for (const char* schedule : {"1f1b", "interleaved", "gpipe", "zb-h1"}) {
        SCOPED_TRACE(std::string(model) + " on " + name + ", " + schedule);
        const std::int32_t stages = schedule == std::string_view("interleaved") ? 4 : 2;
        Strategy strategy;
        PlanOptions options;
        options.microbatches = 4;
        options.pipeline = Pipeline{schedule, {}};
        for (std::int32_t i = 0; i < n; ++i) {
          const std::int32_t stage = i * stages / n;
          options.pipeline->stage_of.push_back(stage);
          strategy.push_back(in_both(graph.operators()[static_cast<std::size_t>(i)], stage % 2 * 8, 2, 4));
        }
        ASSERT_EQ(illegal(graph, strategy, options, topology), std::nullopt);
        EXPECT_THAT(expect_folded_as_whole(graph, costs, options, strategy), testing::Ge(least));
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
