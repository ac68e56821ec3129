#include "taskgraph/plan/pipeline.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

OperatorGraph chain(std::int32_t layers) {
  GraphBuilder b("chain", 4);
  TensorId x = b.data("x", {4, 64});
  for (std::int32_t l = 0; l < layers; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::int64_t{64}}, {"bias", 0}});
  return b.build();
}

Strategy one_device_each(const OperatorGraph& graph) {
  Strategy strategy;
  for (std::size_t i = 0; i < graph.operators().size(); ++i)
    strategy.push_back(single_device(graph.operators()[i], DeviceId(i)));
  return strategy;
}

std::multiset<std::pair<std::uint64_t, std::uint64_t>> keys_of_work(const TaskGraph& tasks) {
  std::multiset<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (std::size_t t = 0; t < tasks.dag.num_tasks(); ++t) {
    if (tasks.labels[t].kind == TaskKind::Barrier) continue;
    const TaskKey key = tasks.dag.key(TaskId(t));
    keys.emplace(key.high, key.low);
  }
  return keys;
}

bool belongs(const TaskLabel& label, const PipelineStep& step, const Pipeline& pipeline) {
  if (label.kind > TaskKind::BackwardWeight || pipeline.stage_of[label.op.index()] != step.stage)
    return false;
  if (std::max(0, label.microbatch) != step.microbatch) return false;
  switch (step.kind) {
    case StepKind::Forward:
      return label.kind == TaskKind::Forward;
    case StepKind::Backward:
      return label.kind != TaskKind::Forward;
    case StepKind::BackwardInput:
      return label.kind == TaskKind::BackwardInput;
    case StepKind::BackwardWeight:
      return label.kind == TaskKind::BackwardWeight;
  }
  return false;
}

// Every device ends a step before it begins the next that is not beside it, and all before it updates
// weights.
void expect_steps_in_order(const RandomPipeline& p, const TaskGraph& tasks, const Timeline& timeline,
                           std::size_t num_devices) {
  const Pipeline& pipeline = *p.options.pipeline;
  const PipelineOrder order = pipeline_order(p.strategy, pipeline, p.options.microbatches, num_devices);
  for (std::size_t d = 0; d < num_devices; ++d) {
    if (order.group_of[d] < 0) continue;
    Nanoseconds done = 0, before = 0;  // when the last step ended, when those before this one had
    for (const PipelineStep& step : order.steps[static_cast<std::size_t>(order.group_of[d])]) {
      if (!step.beside) before = done;
      Nanoseconds begin = std::numeric_limits<Nanoseconds>::max(), end = done;
      for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
        if (tasks.labels[t].device != DeviceId(d) || !belongs(tasks.labels[t], step, pipeline)) continue;
        begin = std::min(begin, timeline.start[t]);
        end = std::max(end, timeline.end[t]);
      }
      EXPECT_GE(begin, before) << "device " << d << " microbatch " << step.microbatch << " stage "
                               << step.stage;
      done = end;
    }
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      if (tasks.labels[t].device != DeviceId(d) || tasks.labels[t].kind != TaskKind::Update) continue;
      EXPECT_GE(timeline.start[t], done) << "update on device " << d;
    }
  }
}

class PipelinesOf : public testing::TestWithParam<const char*> {};

TEST_P(PipelinesOf, FollowTheirSchedulesAndDoTheSameWork) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  for_each_seed(10, [&](Rng& rng) {
    const RandomPipeline p = random_pipeline(graph, rng, topology);
    PlanOptions apart = p.options;
    apart.pipeline.reset();
    const PlanContents contents(graph, costs, p.options), plain(graph, costs, apart);
    ExpandedStrategy expanded(contents), plainly(plain);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(contents.bind(p.strategy), {.labels = Labels::Make});
    plainly.expand(plain.bind(p.strategy), {.labels = Labels::Make});
    const Timeline timeline = simulate(tasks.dag);
    EXPECT_THAT(check_schedule(tasks.dag, timeline), IsEmpty());
    expect_steps_in_order(p, tasks, timeline, topology.num_devices());
    EXPECT_EQ(keys_of_work(tasks), keys_of_work(plainly.graph()));
  });
}

INSTANTIATE_TEST_SUITE_P(Zoo, PipelinesOf, testing::ValuesIn(small_models), ModelWord());

// What a stage keeps of microbatches that wait for backward; beside that at most the next one's input, an
// output that is being sent, and the gradients of a step's output and input.
TEST(PipelineMemory, HoldsTheMicrobatchesThatAreInFlight) {
  constexpr std::int32_t kStages = 4, kMicrobatches = 6, kAtHand = 4;
  const OperatorGraph graph = chain(kStages);
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel costs(topology);
  constexpr std::int64_t kActivations = 4 * 64 * 4;
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    const auto in_flight = [&](std::int32_t s) {
      return schedule == "gpipe" ? kMicrobatches : std::min(kStages - s, kMicrobatches);
    };
    PlanOptions options;
    options.microbatches = kMicrobatches;
    options.pipeline = Pipeline{schedule, {0, 1, 2, 3}};
    const PlanContents contents(graph, costs, options);
    const BoundStrategy bound = contents.bind(one_device_each(graph));
    ExpandedStrategy expanded(contents);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(bound);
    const std::vector<DeviceMemory> peaks = peak_memory(expanded, simulate(tasks.dag));
    for (std::int32_t s = 1; s < kStages; ++s) {  // data that the first stage reads are not counted
      const std::int64_t permanent = 3 * 64 * 64 * 4;
      const std::int64_t kept = peaks[static_cast<std::size_t>(s)].peak.value - permanent;
      EXPECT_GE(kept, in_flight(s) * kActivations) << schedule << " stage " << s;
      EXPECT_LE(kept, (in_flight(s) + kAtHand) * kActivations) << schedule << " stage " << s;
    }
  }
}

TEST(PipelineOrder, GroupsOfDevicesTakeTurns) {
  const OperatorGraph graph = chain(4);
  Strategy strategy;
  for (const std::size_t d : {2U, 0U, 2U, 0U})
    strategy.push_back(single_device(graph.operators()[0], DeviceId(d)));
  const PipelineOrder order = pipeline_order(strategy, {"interleaved", {0, 1, 2, 3}}, 2, 4);
  EXPECT_THAT(order.group_of, ElementsAre(1, -1, 0, -1));
  ASSERT_EQ(order.steps.size(), 2U);
  for (const PipelineStep& step : order.steps[0]) EXPECT_EQ(step.stage % 2, 0);
  for (const PipelineStep& step : order.steps[1]) EXPECT_EQ(step.stage % 2, 1);
}

TEST(PipelineOrder, StagesLieInAV) {
  const OperatorGraph graph = chain(4);
  Strategy strategy;
  for (const std::size_t d : {2U, 0U, 0U, 2U})
    strategy.push_back(single_device(graph.operators()[0], DeviceId(d)));
  const PipelineOrder order = pipeline_order(strategy, {"zb-v", {0, 1, 2, 3}}, 3, 4);
  EXPECT_THAT(order.group_of, ElementsAre(1, -1, 0, -1));
  ASSERT_EQ(order.steps.size(), 2U);
  for (const PipelineStep& step : order.steps[0]) EXPECT_TRUE(step.stage == 0 || step.stage == 3);
  for (const PipelineStep& step : order.steps[1]) EXPECT_TRUE(step.stage == 1 || step.stage == 2);
}

class IllegalPipeline : public testing::Test {
 protected:
  [[nodiscard]] std::string reason(std::vector<std::size_t> devices, const Pipeline& pipeline,
                                   std::int32_t microbatches = 4) const {
    Strategy strategy;
    for (const std::size_t d : devices) strategy.push_back(single_device(graph_.operators()[0], DeviceId(d)));
    return illegal(graph_, strategy, pipeline, microbatches, topology_).value_or("legal");
  }
  const OperatorGraph graph_ = chain(4);
  const Topology topology_ = make_topology("p100-4x4:1");
};

TEST_F(IllegalPipeline, NamesStagesAndOperators) {
  EXPECT_EQ(reason({0, 1, 2, 3}, {"1f1b", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason({0, 0, 1, 1}, {"1f1b", {0, 0, 1, 1}}), "legal");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"1f1b", {0, 1, 2}}), "3 operators have a stage, the model has 4");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"1f1b", {0, 1, 3, 3}}), "stage 2 of 4 has no operator");
  EXPECT_EQ(
      reason({0, 1, 2, 3}, {"1f1b", {0, 2, 1, 3}}),
      "operator \"fc2\" of stage 1 reads \"fc1\", which operator \"fc1\" makes in stage 2; data must not "
      "go back to an earlier stage");
}

TEST_F(IllegalPipeline, NamesDevices) {
  EXPECT_EQ(
      reason({0, 1, 1, 2}, {"1f1b", {0, 0, 1, 1}}),
      "stages 0 and 1 share gpu1 but not all of their devices; two stages have the same devices or none "
      "in common");
  EXPECT_EQ(reason({0, 1, 1, 1}, {"interleaved", {0, 1, 2, 2}}),
            "3 stages on 2 groups of devices; each group must have as many");
  EXPECT_EQ(
      reason({0, 0, 1, 1}, {"interleaved", {0, 1, 2, 3}}),
      "stage 1 has the devices of stage 0; 2 groups of devices take turns, so it must have those of stage 2");
  EXPECT_EQ(
      reason({0, 1, 0, 1}, {"zb-v", {0, 1, 2, 3}}),
      "stage 2 has the devices of stage 0; under schedule \"zb-v\" stages go down 2 groups of devices and "
      "up again, so it must have those of stage 1");
}

TEST_F(IllegalPipeline, SaysWhatTheScheduleNeeds) {
  EXPECT_THAT(reason({0, 1, 0, 1}, {"1f1b", {0, 1, 2, 3}}), HasSubstr("found 2 chunks a device, allowed: 1"));
  EXPECT_EQ(reason({0, 1, 0, 1}, {"interleaved", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason({0, 1, 1, 0}, {"zb-v", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(
      reason({0, 1, 1, 0}, {"interleaved", {0, 1, 2, 3}}),
      "stage 2 has the devices of stage 1; 2 groups of devices take turns, so it must have those of stage 0");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"zb-v", {0, 1, 2, 3}}),
            "schedule \"zb-v\": found 1 chunk a device, allowed: 2, as in a V");
  EXPECT_THAT(reason({0, 1, 0, 1}, {"interleaved", {0, 1, 2, 3}}, 3),
              HasSubstr("schedule \"interleaved\": "));
  EXPECT_THAT(reason({0, 1, 2, 3}, {"1f2b", {0, 1, 2, 3}}), HasSubstr("did you mean \"1f1b\""));
  EXPECT_EQ(reason({0, 1, 2, 3}, {"chimera", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason({0, 1, 2, 2}, {"chimera", {0, 1, 2, 2}}),
            "schedule \"chimera\": found 3 stages, allowed: an even number, like 4");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"inference", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason({2, 2, 2, 2}, {"inference", {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"2bw", {0, 1, 2, 3}}, 4096), "legal");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"2bw", {0, 1, 2, 3}}, 4097),
            "schedule \"2bw\": found 4097 microbatches for 4 stages, allowed: from 3 to 4096");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"2bw", {0, 1, 2, 3}}, 3), "legal");
  EXPECT_EQ(reason({0, 1, 2, 3}, {"2bw", {0, 1, 2, 3}}, 2),
            "schedule \"2bw\": found 2 microbatches for 4 stages, allowed: from 3 to 4096");
  EXPECT_THAT(reason({0, 1, 0, 1}, {"pipedream", {0, 1, 2, 3}}), HasSubstr("found 2 chunks a device"));
  EXPECT_EQ(reason({1, 1, 1, 1}, {"pipedream", {0, 1, 2, 3}}), "legal");
}

}  // namespace
}  // namespace pipesim
