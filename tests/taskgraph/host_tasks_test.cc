#include "taskgraph/expansion/host_tasks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "taskgraph/plan/layer_modules.h"
#include "taskgraph/plan/plan.h"
#include "tests/taskgraph/replica_plans.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

// Products of `rows` samples, one behind the other.
OperatorGraph products(std::int64_t count, std::int64_t rows, std::int64_t width) {
  GraphBuilder b("products", rows);
  TensorId x = b.data("x", {rows, width});
  for (std::int64_t l = 0; l < count; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x},
              {{"out", std::vector<std::int64_t>{width}}, {"bias", 0}});
  return b.build();
}

Nanoseconds time_of(const OperatorGraph& graph, const Topology& topology, const Runtime& runtime,
                    const Strategy& strategy, const PlanOptions& options) {
  const CostModel costs(topology, nullptr, runtime);
  SimulatedPlan plan(graph, costs, options, strategy);
  plan.build(options.microbatches);
  return plan.timeline.makespan;
}

Strategy on_first_device(const OperatorGraph& graph) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  return strategy;
}

Runtime with_host(const std::string& figures) { return parse_runtime("pipesim:" + figures); }

// Kernels of a microsecond behind launches of a hundred: forward, then backward, launch after launch.
TEST(HostTasks, BoundSmallKernels) {
  const OperatorGraph graph = products(20, 1, 16);
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const Nanoseconds time =
      time_of(graph, topology, with_host("module=70us,backward=40us,kernel=30us,step=1ms"),
              on_first_device(graph), {});
  // Forward launches a kernel; backward one for the input (but for the first product, whose input is data)
  // and one for the weight.
  constexpr double kMicro = 1e3;
  const double host = 20 * (70 + 30) + 19 * (40 + 30) + 20 * 30 + 2 * 1000;
  constexpr double kLastKernels = 30;  // weights are updated, too
  EXPECT_THAT(static_cast<double>(time), AllOf(Ge(host * kMicro), Le((host + 20 * kLastKernels) * kMicro)));
}

TEST(HostTasks, AreHiddenByLargeKernels) {
  const OperatorGraph graph = products(20, 8192, 8192);
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const Strategy strategy = on_first_device(graph);
  const Nanoseconds without = time_of(graph, topology, Runtime(), strategy, {});
  EXPECT_EQ(time_of(graph, topology, with_host("module=70us,backward=40us,kernel=30us"), strategy, {}),
            without);
  // Kernels may only be launched late where there is nothing before them that hides it.
  const Nanoseconds late = time_of(graph, topology, with_host("step=50ms"), strategy, {});
  EXPECT_THAT(late, AllOf(Ge(without), Le(without + 50'000'000)));
}

// A process begins a step when its device does: it can't work ahead while the device waits for a stage.
TEST(HostTasks, BeginAStepWithTheirDevice) {
  const OperatorGraph graph = products(4, 1, 16);
  const Topology topology = make_topology("dgx-a100:gpus=4");
  constexpr std::int32_t kMicrobatches = 12, kStages = 4;
  PlanOptions options;
  options.microbatches = kMicrobatches;
  options.pipeline = Pipeline{"1f1b", {0, 1, 2, 3}};
  Strategy strategy;
  for (std::size_t i = 0; i < 4; ++i) strategy.push_back(single_device(graph.operators()[i], DeviceId(i)));
  const Nanoseconds time =
      time_of(graph, topology, with_host("module=10ms,backward=10ms"), strategy, options);
  // The first product has no input to backward's module, so the last steps of stage 0 are its own alone.
  const double steps = 2.0 * (kMicrobatches + kStages - 1);
  EXPECT_NEAR(static_cast<double>(time), steps * 10e6, 0.06 * steps * 10e6);
}

// Two devices that divide every product: a process launches each collective that its device takes part in.
TEST(HostTasks, PayForCollectives) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=2,layers=2,hidden=64,heads=4,sequence=16,vocab=128,positions=16,dropout=0");
  const Topology topology = make_topology("dgx-a100:gpus=2");
  const ReplicaPlan plan = plan_in_both(graph, {2, 1, 1}, "1f1b");
  const CostModel costs(topology, nullptr, with_host("collective=10ms"));
  SimulatedPlan simulated(graph, costs, plan.options, plan.strategy);
  simulated.build(plan.options.microbatches);
  const auto is_launched = [](const TaskLabel& label) {
    return label.device == DeviceId(0) && (is_inner(label.kind) || moves_activations(label.kind) ||
                                           label.kind == TaskKind::BackwardTransfer);
  };
  const auto launched = std::ranges::count_if(simulated.tasks.labels, is_launched);
  EXPECT_GE(launched, 4 * 8);  // two a layer, each way, in each of four microbatches
  const double host = static_cast<double>(launched) * 10e6;
  EXPECT_THAT(static_cast<double>(simulated.timeline.makespan), AllOf(Ge(host), Le(1.02 * host)));
}

// What sends tokens to experts is launched when the device knows how many go where, if the host reads that.
TEST(HostTasks, WaitForCountsOfTokens) {
  const OperatorGraph graph = make_zoo_model(
      "mixtral-8x7b:batch=8,layers=2,hidden=2048,heads=16,kv_heads=16,ffn=512,vocab=128,sequence=2048");
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const auto is_dispatch = [&](OperatorId op) { return graph.op(op).kind == "moe_dispatch"; };
  const auto waits = [&](const char* counts) {
    const CostModel costs(topology, nullptr, with_host(std::string("module=1us,token-counts=") + counts));
    SimulatedPlan plan(graph, costs, {}, on_first_device(graph));
    plan.build(1);
    std::vector<bool> found;
    for (std::size_t t = 0; t < plan.tasks.labels.size(); ++t) {
      const TaskLabel& label = plan.tasks.labels[t];
      if (label.kind != TaskKind::Host || label.stage != 0 || !is_dispatch(label.op)) continue;
      Nanoseconds routed = 0;
      for (std::size_t r = 0; r < plan.tasks.labels.size(); ++r) {
        const TaskLabel& other = plan.tasks.labels[r];
        if (other.kind == TaskKind::Forward && other.op.index() + 1 == label.op.index())
          routed = plan.timeline.end[r];
      }
      EXPECT_GT(routed, 0);
      found.push_back(plan.timeline.start[t] >= routed);
    }
    return found;
  };
  EXPECT_THAT(waits("read"), testing::ElementsAre(true, true));
  EXPECT_THAT(waits("on-device"), testing::Each(false));
}

// Hosts are all that takes time: a module and a kernel cost 100 us, a kernel of a graph half a microsecond.
TEST(HostTasks, LaunchPartsOfLayersAsGraphs) {
  const OperatorGraph graph = make_zoo_model(
      "mixtral-8x7b:batch=1,layers=3,hidden=16,heads=2,kv_heads=2,ffn=16,vocab=32,sequence=8,experts=4");
  const Topology topology = make_topology("dgx-a100:gpus=1");
  const auto time = [&](const std::string& graphs) {
    return static_cast<double>(time_of(graph, topology,
                                       with_host("module=10ms,backward=10ms,graphs=" + graphs),
                                       on_first_device(graph), {})) /
           1e6;
  };
  const auto modules = [&](std::string_view wanted) {
    const std::vector<std::int32_t> graphed =
        graphed_segments(graph, parse_cuda_graphs(wanted), layers_of(graph));
    double count = 0;
    for (std::size_t i = 0; i < graphed.size(); ++i) {
      if (graphed[i] != kNoSegment && !graph.operators()[i].moves_nothing) ++count;
    }
    return count;
  };
  const double all = time("none");
  for (const char* graphs : {"attn", "moe_router", "attn+moe_router+moe_preprocess", "layer"}) {
    EXPECT_GT(modules(graphs), 3) << graphs;
    // Forward and backward of all in a layer's graph together cost one module each.
    EXPECT_NEAR(all - time(graphs), 2 * 10 * (modules(graphs) - 3), 0.01 * all) << graphs;
  }
  EXPECT_LT(time("iteration"), 0.02 * all);
}

TEST(ReductionOverlap, MayWaitForBackward) {
  const OperatorGraph graph = products(12, 256, 2048);
  const Topology topology = make_topology("dgx-a100:gpus=4");
  Strategy strategy;
  for (const Operator& op : graph.operators()) {
    ParallelConfig config = single_device(op, DeviceId(0));
    config.degrees[static_cast<std::size_t>(op.factor("b"))] = 4;
    config.devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
    strategy.push_back(config);
  }
  const auto begins_before_end = [&](const char* overlap, const PlanOptions& options) {
    const CostModel costs(topology, nullptr, with_host(overlap));
    SimulatedPlan plan(graph, costs, options, strategy);
    plan.build(options.microbatches);
    Nanoseconds backward = 0, first = INT64_MAX;
    for (std::size_t t = 0; t < plan.tasks.labels.size(); ++t) {
      const TaskKind kind = plan.tasks.labels[t].kind;
      if (kind == TaskKind::GradientSync) first = std::min(first, plan.timeline.start[t]);
      if (kind == TaskKind::BackwardInput || kind == TaskKind::BackwardWeight)
        backward = std::max(backward, plan.timeline.end[t]);
    }
    return first < backward;
  };
  PlanOptions whole, divided;
  divided.state_sharding = parse_state_sharding("zero1");
  for (const std::int32_t microbatches : {1, 3}) {
    whole.microbatches = divided.microbatches = microbatches;
    EXPECT_TRUE(begins_before_end("overlap=always", whole));
    EXPECT_TRUE(begins_before_end("overlap=always", divided));
    EXPECT_TRUE(begins_before_end("overlap=unless-sharded", whole));
    EXPECT_FALSE(begins_before_end("overlap=unless-sharded", divided));
    EXPECT_FALSE(begins_before_end("overlap=never", whole));
  }
}

}  // namespace
}  // namespace pipesim
