#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/steady_state.h"
#include "tests/seeds.h"
#include "tests/taskgraph/data_flow.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/replica_plans.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Ge;
using testing::IsEmpty;

std::vector<TaskKind> kinds_of(StepKind kind) {
  if (kind == StepKind::Forward) return {TaskKind::Forward};
  if (kind == StepKind::BackwardInput) return {TaskKind::BackwardInput};
  if (kind == StepKind::BackwardWeight) return {TaskKind::BackwardWeight};
  return {TaskKind::BackwardInput, TaskKind::BackwardWeight};
}

/// A random pipeline of stages that have as many devices as their opposite ones, under Chimera's schedule (Li
/// and Hoefler, SC 2021) or DualPipe's (DeepSeek-V3).
std::optional<RandomPipeline> random_both_ways(const OperatorGraph& graph, Rng& rng, const Topology& topology,
                                               const std::string& schedule) {
  for (int tries = 0; tries < 20; ++tries) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    p.options.pipeline->schedule = schedule;
    if (schedule == "dualpipe")
      p.options.microbatches = 2 * p.options.pipeline->num_stages() + 2 * (p.options.microbatches / 2);
    if (!illegal(graph, p.strategy, p.options, topology)) return p;
  }
  return std::nullopt;
}

/// Calls visit(graph, costs, plan) for random plans of the models under the schedule, whose state is divided
/// at random, which may be illegal.
template <class Visit>
void for_random_both_ways(const std::vector<const char*>& models, std::uint64_t seeds,
                          const std::string& schedule, Visit visit) {
  for (const char* model : models) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(seeds, [&](Rng& rng) {
      auto p = random_both_ways(graph, rng, topology, schedule);
      if (!p) return;
      p->options.state_sharding = random_state_sharding(rng);
      visit(graph, costs, *p);
    });
  }
}

// Microbatches with odd numbers run every operator's shards on the opposite devices; each device follows the
// schedule, step after step.
class BothWays : public testing::TestWithParam<const char*> {};

TEST_P(BothWays, OddMicrobatchesGoTheOppositeWay) {
  std::int32_t checked = 0;
  for (const char* model : {"mlp:batch=8,layers=6", "lenet:batch=8", "rnnlm:batch=4,steps=2,hidden=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(8, [&](Rng& rng) {
      const auto p = random_both_ways(graph, rng, topology, GetParam());
      if (!p) return;
      ++checked;
      SimulatedPlan s(graph, costs, p->options, p->strategy);
      s.build(p->options.microbatches);
      EXPECT_THAT(check_schedule(s.tasks.dag, s.timeline), IsEmpty());
      const Pipeline& pipeline = *p->options.pipeline;
      const std::vector<DeviceId> opposite = opposite_devices(p->strategy, pipeline, topology.num_devices());
      const PipelineOrder order =
          pipeline_order(p->strategy, pipeline, p->options.microbatches, topology.num_devices());
      using Place = std::tuple<std::int32_t, std::int32_t, TaskKind, DeviceId>;  // stage, microbatch
      std::map<Place, std::pair<Nanoseconds, Nanoseconds>> spans;
      for (std::size_t t = 0; t < s.tasks.labels.size(); ++t) {
        const TaskLabel& label = s.tasks.labels[t];
        if (label.kind > TaskKind::BackwardWeight) continue;
        const std::int32_t m = std::max(0, label.microbatch);
        const std::vector<DeviceId>& devices = p->strategy[label.op.index()].devices;
        const bool there = std::ranges::any_of(
            devices, [&](DeviceId d) { return (m % 2 == 0 ? d : opposite[d.index()]) == label.device; });
        EXPECT_TRUE(there) << label.op.value << " of microbatch " << m << " on " << label.device.value;
        const Place place{s.contents.stage_of(label.op), m, label.kind, label.device};
        const auto [it, fresh] = spans.try_emplace(place, s.timeline.start[t], s.timeline.end[t]);
        it->second.first = std::min(it->second.first, s.timeline.start[t]);
        it->second.second = std::max(it->second.second, s.timeline.end[t]);
      }
      for (std::size_t d = 0; d < topology.num_devices(); ++d) {
        if (order.group_of[d] < 0) continue;
        const std::vector<PipelineStep>& steps = order.steps[static_cast<std::size_t>(order.group_of[d])];
        Nanoseconds done = 0;
        for (std::size_t first = 0, count = 0; first < steps.size(); first += count) {
          count = steps_to_barrier(steps, first, 1);
          const Nanoseconds before = done;
          for (std::size_t i = first; i < first + count; ++i) {
            for (const TaskKind kind : kinds_of(steps[i].kind)) {
              const auto span = spans.find({steps[i].stage, steps[i].microbatch, kind, DeviceId(d)});
              if (span == spans.end()) continue;
              EXPECT_GE(span->second.first, before);
              done = std::max(done, span->second.second);
              spans.erase(span);
            }
          }
        }
      }
      EXPECT_THAT(spans, IsEmpty());
    });
  }
  EXPECT_THAT(checked, Ge(sanitized ? 2 : 6));
}

// Each device keeps two stages' weights, which both ways' gradients update: stages of equal layers then take
// twice the memory for what is kept for good.
TEST_P(BothWays, WeightsAreKeptTwiceAndSynchronised) {
  GraphBuilder b("layers", 4);
  TensorId x = b.data("x", {4, 256});
  RandomPipeline p;
  p.options.microbatches = 8;
  p.options.pipeline = Pipeline{GetParam(), {0, 1, 2, 3}};
  for (int l = 0; l < 4; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::int64_t{256}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  for (std::size_t i = 0; i < 4; ++i) p.strategy.push_back(single_device(graph.operators()[i], DeviceId(i)));
  SimulatedPlan s(graph, costs, p.options, p.strategy);
  s.build(8);
  constexpr std::int64_t kWeights = 256 * 256 * 4;
  for (const WeightMemory& m : s.contents.permanent_memory(s.bound)) {
    EXPECT_EQ(m.weights.value, 2 * kWeights);
    EXPECT_EQ(m.gradients.value, 2 * kWeights);
  }
  // Two devices for each of four weights: an all-reduce for each.
  std::map<TensorId, std::int32_t> members;
  Nanoseconds last_backward = 0;
  for (std::size_t t = 0; t < s.tasks.labels.size(); ++t) {
    const TaskLabel& label = s.tasks.labels[t];
    if (label.kind == TaskKind::BackwardWeight) last_backward = std::max(last_backward, s.timeline.end[t]);
    if (label.kind == TaskKind::GradientSync) members[label.tensor] = label.group_size;
  }
  ASSERT_EQ(members.size(), 4U);
  for (const auto& [weight, size] : members) EXPECT_EQ(size, 2) << graph.tensor(weight).name;
  const std::vector<DeviceMemory> peaks = peak_memory(s.expanded, s.timeline);
  const std::vector<Bytes> most = allocated_memory(s.expanded);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_GE(peaks[d].peak.value, 3 * 2 * kWeights);
    EXPECT_LE(peaks[d].peak, most[d]);
  }
}

/// Layers of 256 x 256 weights, one a stage, each on `copies` devices of each way, which have samples of
/// their own.
struct DividedLayers {
  static constexpr std::int64_t kElements = 256 * 256;
  DividedLayers(const std::string& schedule, const std::string& sharding, std::int32_t copies,
                std::int32_t stages = 4)
      : graph(layers(stages)), costs(topology) {
    options.microbatches = 2 * stages;
    options.pipeline = Pipeline{schedule, {}};
    options.optimizer = Optimizer::Adam;
    options.state_sharding = parse_state_sharding(sharding);
    for (std::int32_t s = 0; s < stages; ++s) {
      options.pipeline->stage_of.push_back(s);
      strategy.push_back(in_both(graph.operators()[static_cast<std::size_t>(s)], s * copies, copies, 1));
    }
    EXPECT_EQ(illegal(graph, strategy, options, topology), std::nullopt);
  }
  static OperatorGraph layers(std::int32_t stages) {
    GraphBuilder b("layers", 8);
    TensorId x = b.data("x", {8, 256});
    for (std::int32_t l = 0; l < stages; ++l)
      x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::int64_t{256}}, {"bias", 0}});
    return b.build();
  }
  OperatorGraph graph;
  Topology topology = make_topology("p100-4x4:4");
  CostModel costs;
  PlanOptions options;
  Strategy strategy;
};

/// Kind, size and members of the collectives that move weights and their gradients, by kind of task.
std::map<TaskKind, std::set<std::tuple<Collective, std::int32_t, std::int64_t>>> moved_weights(
    const SimulatedPlan& plan) {
  std::map<TaskKind, std::set<std::tuple<Collective, std::int32_t, std::int64_t>>> moved;
  for (const TaskLabel& l : plan.tasks.labels) {
    if (l.kind == TaskKind::GradientSync || l.kind == TaskKind::WeightGather)
      moved[l.kind].emplace(l.collective, l.group_size, l.size.value);
  }
  return moved;
}

// By hand: a device has two weights and their gradients in float32, and of Adam's two moments of both
// the part of one of all copies, which are `copies` in each direction. Their gradients are reduced, and the
// weights gathered, by one collective over all of them.
TEST_P(BothWays, AllCopiesDivideState) {
  constexpr std::int64_t kWeight = 4 * DividedLayers::kElements;
  for (const std::int32_t copies : {1, 2, 4}) {
    for (const char* sharding : {"zero1", "zero1,overlap=gather", "zero3,reshard=last"}) {
      SCOPED_TRACE(fmt::format("{} copies, {}", copies, sharding));
      const DividedLayers layers(GetParam(), sharding, copies);
      SimulatedPlan s(layers.graph, layers.costs, layers.options, layers.strategy);
      s.build(layers.options.microbatches);
      EXPECT_THAT(check_schedule(s.tasks.dag, s.timeline), IsEmpty());
      const std::vector<WeightMemory> held = s.contents.permanent_memory(s.bound);
      for (std::size_t d = 0; d < 4 * static_cast<std::size_t>(copies); ++d) {
        EXPECT_EQ(held[d].weights.value, 2 * kWeight);
        EXPECT_EQ(held[d].gradients.value, 2 * kWeight);
        EXPECT_EQ(held[d].optimizer_state.value, 2 * 2 * kWeight / (2 * copies));
      }
      EXPECT_THAT(
          moved_weights(s),
          testing::UnorderedElementsAre(
              testing::Pair(TaskKind::GradientSync,
                            testing::ElementsAre(std::tuple(Collective::ReduceScatter, 2 * copies, kWeight))),
              testing::Pair(TaskKind::WeightGather,
                            testing::ElementsAre(std::tuple(Collective::AllGather, 2 * copies, kWeight)))));
    }
  }
}

// Neighbouring copies share, in one direction or in both; others have the same parts and take part in the
// sum.
TEST_P(BothWays, SomeOfTheCopiesDivideState) {
  constexpr std::int64_t kWeight = 4 * DividedLayers::kElements;
  for (const auto& [shard, parts] : {std::pair(1, 1), std::pair(2, 2), std::pair(4, 4), std::pair(8, 8)}) {
    const DividedLayers layers(GetParam(), fmt::format("zero1,shard={}", shard), 4);
    SimulatedPlan s(layers.graph, layers.costs, layers.options, layers.strategy);
    s.build(layers.options.microbatches);
    for (std::size_t d = 0; d < 16; ++d)
      EXPECT_EQ(s.contents.permanent_memory(s.bound)[d].optimizer_state.value, 2 * 2 * kWeight / parts);
  }
}

// With gathers in forward, the first microbatch of each way waits for one gather of its stage's weight, which
// both ways have; all of them are ahead of the first step of a stage.
TEST_P(BothWays, OneGatherServesTheFirstMicrobatchOfEachWay) {
  const DividedLayers layers(GetParam(), "zero1,overlap=gather", 2);
  SimulatedPlan s(layers.graph, layers.costs, layers.options, layers.strategy);
  s.build(layers.options.microbatches);
  std::map<TensorId, Nanoseconds> gathered;
  for (std::size_t t = 0; t < s.tasks.labels.size(); ++t) {
    if (s.tasks.labels[t].kind != TaskKind::WeightGather) continue;
    EXPECT_TRUE(gathered.emplace(s.tasks.labels[t].tensor, s.timeline.end[t]).second);
  }
  ASSERT_EQ(gathered.size(), 4U);
  std::int32_t first_passes = 0;
  for (std::size_t t = 0; t < s.tasks.labels.size(); ++t) {
    const TaskLabel& l = s.tasks.labels[t];
    if (l.kind != TaskKind::Forward || l.microbatch > 1) continue;
    ++first_passes;
    const TensorId weight = layers.graph.op(l.op).uses[1].tensor;
    ASSERT_EQ(layers.graph.tensor(weight).kind, TensorKind::Weight);
    EXPECT_GE(s.timeline.start[t], gathered.at(weight));
  }
  EXPECT_EQ(first_passes, 4 * 2 * 2);
}

// An embedding that both ends use lies on the same devices in both ways: all of them divide its state.
TEST_P(BothWays, TiedEndsDivideTheStateOfTheirWeightOnce) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=8,sequence=16,layers=2,hidden=32,heads=4,vocab=64,bias=no,projection=tied");
  const Topology topology = make_topology("dgx-a100:2");
  const CostModel costs(topology);
  ReplicaPlan plan = plan_in_both(graph, {1, 2, 4}, GetParam());
  plan.options.state_sharding = parse_state_sharding("zero1");
  PlanContents contents(graph, costs, plan.options);
  const BoundStrategy bound = contents.bind(plan.strategy);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.kind != TensorKind::Weight || tensor.elements() % 8 != 0) continue;
    const Layout& state = contents.layouts()[contents.state_of(TensorId(t), bound)];
    EXPECT_EQ(state.entries().size(), 8U) << tensor.name;
    for (const LayoutEntry& e : state.entries())
      EXPECT_EQ(state.box(e).elements(), tensor.elements() / 8) << tensor.name;
  }
}

// What each device reads has come to it, with every addend of every microbatch.
TEST_P(BothWays, DividedStateDeliversEverything) {
  std::int32_t checked = 0;
  const std::vector models{"mlp:batch=8,layers=6", "lenet:batch=8", "rnnlm:batch=4,steps=2,hidden=8"};
  for_random_both_ways(
      models, 16, GetParam(), [&](const OperatorGraph& graph, const CostModel& costs, RandomPipeline& p) {
        if (illegal(graph, p.strategy, p.options, costs.topology())) return;
        ++checked;
        SimulatedPlan s(graph, costs, p.options, p.strategy);
        s.build(p.options.microbatches);
        EXPECT_THAT(check_schedule(s.tasks.dag, s.timeline), IsEmpty());
        Dataflow flow(graph, p.strategy, s.tasks, p.options, [&](TensorId weight) -> const Layout& {
          return s.contents.layouts()[s.contents.state_of(weight, s.bound)];
        });
        EXPECT_THAT(flow.faults(), IsEmpty()) << p.options.state_sharding.str();
      });
  EXPECT_THAT(checked, Ge(sanitized ? 2 : 6));
}

TEST_P(BothWays, SteadyStatesAreWhatSimulatingAllGives) {
  std::int32_t proven = 0;
  const std::vector models{"mlp:batch=8,layers=6", "lenet:batch=8"};
  for_random_both_ways(
      models, 6, GetParam(), [&](const OperatorGraph& graph, const CostModel& costs, RandomPipeline& p) {
        p.options.microbatches = 48;
        if (illegal(graph, p.strategy, p.options, costs.topology())) p.options.state_sharding = {};
        SimulatedPlan all(graph, costs, p.options, p.strategy), few(graph, costs, p.options, p.strategy);
        all.build(48);
        for (const std::int32_t n : few_microbatches(few.contents, few.bound)) {
          few.build(n);
          const auto steady = find_steady_state(few.expanded, few.timeline);
          if (!steady) continue;
          ++proven;
          EXPECT_EQ(steady->time_of(few.timeline.makespan), all.timeline.makespan);
          const TaskTimes times{few.timeline, n, few.expanded.tasks_of_one_microbatch(),
                                few.expanded.block()};
          EXPECT_EQ(peak_memory(few.expanded, times, *steady), peak_memory(all.expanded, all.timeline));
        }
      });
  EXPECT_THAT(proven, Ge(sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr ? 0 : 5));
}

INSTANTIATE_TEST_SUITE_P(Schedules, BothWays, testing::Values("chimera", "dualpipe"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace pipesim
