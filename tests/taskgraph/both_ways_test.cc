#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <tuple>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/steady_state.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
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

TEST_P(BothWays, SteadyStatesAreWhatSimulatingAllGives) {
  std::int32_t proven = 0;
  for (const char* model : {"mlp:batch=8,layers=6", "lenet:batch=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(6, [&](Rng& rng) {
      auto p = random_both_ways(graph, rng, topology, GetParam());
      if (!p) return;
      p->options.microbatches = 48;
      SimulatedPlan all(graph, costs, p->options, p->strategy), few(graph, costs, p->options, p->strategy);
      all.build(48);
      for (const std::int32_t n : few_microbatches(few.contents, few.bound)) {
        few.build(n);
        const auto steady = find_steady_state(few.expanded, few.timeline);
        if (!steady) continue;
        ++proven;
        EXPECT_EQ(steady->time_of(few.timeline.makespan), all.timeline.makespan);
        const TaskTimes times{few.timeline, n, few.expanded.tasks_of_one_microbatch(), few.expanded.block()};
        EXPECT_EQ(peak_memory(few.expanded, times, *steady), peak_memory(all.expanded, all.timeline));
      }
    });
  }
  EXPECT_THAT(proven, Ge(sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr ? 0 : 5));
}

INSTANTIATE_TEST_SUITE_P(Schedules, BothWays, testing::Values("chimera", "dualpipe"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace pipesim
