#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/data_flow.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/random_strategies.h"
#include "tests/taskgraph/replica_plans.h"

namespace pipesim {
namespace {

using testing::IsEmpty;
using Sizes = std::vector<std::int64_t>;

std::size_t repeated_keys(const TaskDag& dag) {
  std::vector<TaskKey> keys(dag.keys().begin(), dag.keys().end());
  std::sort(keys.begin(), keys.end());
  return static_cast<std::size_t>(keys.end() - std::unique(keys.begin(), keys.end()));
}

class Wirings : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Zoo, Wirings, testing::ValuesIn(small_models), ModelWord());

// Operators of each stage in up to three segments at random, or in none.
Recompute random_recompute(const OperatorGraph& graph, Rng& rng, const std::optional<Pipeline>& pipeline) {
  Recompute recompute{Recompute::Kind::Listed, {}};
  std::map<std::pair<std::int32_t, std::size_t>, std::int32_t> numbers;
  const std::size_t segments = 1 + rng.below(3);
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::size_t drawn = rng.below(segments + 1);
    const std::pair key(pipeline ? pipeline->stage_of[i] : 0, drawn);
    const auto next = static_cast<std::int32_t>(numbers.size());
    recompute.segment_of.push_back(drawn == segments ? -1 : numbers.try_emplace(key, next).first->second);
  }
  return recompute;
}

// Samples over all devices where an operator's can be divided so, else copies.
Strategy every_sample_apart(const OperatorGraph& graph, const Topology& topology) {
  Strategy strategy;
  const auto devices = static_cast<std::int32_t>(topology.num_devices());
  for (const Operator& op : graph.operators()) strategy.push_back(in_both(op, 0, devices, 1));
  return strategy;
}

// All that must hold of the plan. Returns how many passes got an input again.
int expect_sound(const OperatorGraph& graph, const CostModel& costs, const Strategy& strategy,
                 const PlanOptions& options) {
  EXPECT_EQ(illegal(graph, strategy, options, costs.topology()), std::nullopt);
  const PlanContents contents(graph, costs, options);
  const BoundStrategy bound = contents.bind(strategy);
  ExpandedStrategy expanded(contents);
  const TaskGraph& tasks = expanded.graph();
  expanded.expand(bound, {.labels = Labels::Make});
  EXPECT_EQ(repeated_keys(tasks.dag), 0U);
  const auto state_of = [&](TensorId weight) -> const Layout& {
    return contents.layouts()[contents.state_of(weight, bound)];
  };
  Dataflow dataflow(graph, strategy, tasks, options, state_of);
  EXPECT_THAT(dataflow.faults(), IsEmpty());
  const Timeline timeline = simulate(tasks.dag);
  EXPECT_THAT(check_schedule(tasks.dag, timeline), IsEmpty());
  const std::vector<DeviceMemory> peaks = peak_memory(expanded, timeline);
  const std::vector<Bytes> allocated = allocated_memory(expanded);
  for (std::size_t d = 0; d < peaks.size(); ++d) EXPECT_LE(peaks[d].peak, allocated[d]);
  return dataflow.gathered_again();
}

TEST_P(Wirings, OfRandomStrategiesDeliverEverything) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  for_each_seed(12, [&](Rng& rng) {
    PlanOptions options;
    options.microbatches = rng.below(3) == 0 ? 3 : 1;
    expect_sound(graph, costs, random_strategy(graph, rng, topology.num_devices(), 8), options);
  });
}

TEST_P(Wirings, OfWhatIsRunAgainDeliverEverything) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const auto draw = [&](PlanOptions& options, Rng& rng) {
    options.recompute = rng.below(3) == 0 ? Recompute{Recompute::Kind::Full, {}}
                                          : random_recompute(graph, rng, options.pipeline);
  };
  for_each_seed(4, [&](Rng& rng) {
    PlanOptions options;
    options.microbatches = rng.below(3) == 0 ? 3 : 1;
    draw(options, rng);
    expect_sound(graph, costs, random_strategy(graph, rng, topology.num_devices(), 8), options);
    RandomPipeline p = random_pipeline(graph, rng, topology);
    draw(p.options, rng);
    expect_sound(graph, costs, p.strategy, p.options);
  });
}

TEST_P(Wirings, OfDividedStateDeliverEverything) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel plain(topology),
      whole(topology, nullptr,
            parse_runtime("pipesim:updates=together,sharded-sums=whole,sharded-weights=broadcast"));
  for_each_seed(8, [&](Rng& rng) {
    const CostModel& costs = rng.split(2).below(2) == 0 ? plain : whole;
    PlanOptions options;
    options.microbatches = rng.below(2) == 0 ? 3 : 1;
    options.state_sharding = random_state_sharding(rng);
    if (rng.below(3) == 0) options.recompute = random_recompute(graph, rng, options.pipeline);
    const bool all_samples = rng.below(2) == 0;
    expect_sound(graph, costs,
                 all_samples ? every_sample_apart(graph, topology)
                             : random_strategy(graph, rng, topology.num_devices(), 8),
                 options);
    RandomPipeline p = random_pipeline(graph, rng, topology);
    p.options.state_sharding = options.state_sharding;
    if (illegal(graph, p.strategy, p.options, topology)) return;
    expect_sound(graph, costs, p.strategy, p.options);
  });
}

// Whatever else the plan says.
TEST_P(Wirings, OfInputsThatAreGatheredAgainDeliverEverything) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  int again = 0;
  for_each_seed(12, [&](Rng& rng) {
    PlanOptions options;
    options.gathered_inputs = GatheredInputs::Again;
    options.microbatches = rng.below(2) == 0 ? 3 : 1;
    if (rng.below(2) == 0) options.recompute = random_recompute(graph, rng, options.pipeline);
    if (rng.below(3) == 0) options.state_sharding = random_state_sharding(rng);
    again += expect_sound(graph, costs, random_strategy(graph, rng, topology.num_devices(), 8), options);
    RandomPipeline p = random_pipeline(graph, rng, topology);
    p.options.gathered_inputs = options.gathered_inputs;
    if (rng.below(2) == 0) p.options.recompute = random_recompute(graph, rng, p.options.pipeline);
    again += expect_sound(graph, costs, p.strategy, p.options);
  });
  if (!sanitized) {
    EXPECT_GT(again, 0);
  }
}

TEST(Wiring, AShardThatNobodyReadsStillRunsForwardBeforeBackward) {
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

TEST(Wiring, OneTransferServesAllConsumersOfALayout) {
  GraphBuilder b("shared", 4);
  const TensorId x = b.add("linear", "p", {b.data("x", {4, 6})}, {{"out", Sizes{8}}});
  for (const char* name : {"q", "k", "v"}) b.add("linear", name, {x}, {{"out", Sizes{4}}});
  const Split other{{}, {1}};
  const Expansion e(b.build(), "p100-4x4", {{"q", other}, {"k", other}, {"v", other}});
  EXPECT_EQ(e.bytes_of(TaskKind::ForwardTransfer), 4 * 8 * 4);
  EXPECT_EQ(e.bytes_of(TaskKind::BackwardTransfer), 4 * 8 * 4);  // the three gradients are added on device 1
}

}  // namespace
}  // namespace pipesim
