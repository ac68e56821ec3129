#include "taskgraph/memory/reserved_memory.h"

#include <gtest/gtest.h>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::vector<ReservedMemory> replayed(const SimulatedPlan& plan, Bytes capacity) {
  std::vector<AllocatorDevice> devices;
  for (std::size_t d = 0; d < plan.contents.costs().topology().num_devices(); ++d)
    devices.push_back({DeviceId(d), capacity});
  const TaskTimes times{plan.timeline, plan.expanded.microbatches(), plan.expanded.tasks_of_one_microbatch(),
                        plan.expanded.block()};
  return reserved_memory(plan.expanded, times, devices);
}

// A projection to 2^15 words for 2^12 tokens, in bfloat16, and PyTorch's loss: 512 MiB for each float32
// tensor of the logits' size. Forward: the logits (256 MiB), their copy in float32, the logarithm of the
// softmax, which stays. Backward: two gradients in float32, of which one takes the copy's block and the other
// a new one, since the logits' block is too small; then the logits' gradient takes that one.
TEST(ReservedMemory, OfALossIsMoreThanItsTensorsTake) {
  constexpr std::int64_t kTokens = 1 << 12, kWidth = 64, kWords = 1 << 15, kMiB = 1 << 20;
  const auto plan_of = [&](const CostModel& costs, std::int64_t degree) {
    GraphBuilder b("loss", kTokens, DataType::BFloat16);
    const TensorId x = b.data("x", {kTokens, kWidth}, DataType::BFloat16);
    const TensorId logits =
        b.add("linear", "head", {x}, {{"out", std::vector<std::int64_t>{kWords}}, {"bias", 0}});
    b.add("cross_entropy", "loss", {logits, b.data("labels", {kTokens}, DataType::Int64)},
          {{"keep_log_softmax", 1}});
    const OperatorGraph graph = b.build();
    Strategy strategy;
    for (const Operator& op : graph.operators()) {
      ParallelConfig config;
      config.degrees.assign(op.factors.size(), 1);
      config.degrees[static_cast<std::size_t>(op.factor(op.name == "head" ? "o" : "v"))] =
          static_cast<std::int32_t>(degree);
      for (std::int64_t d = 0; d < degree; ++d) config.devices.emplace_back(static_cast<std::size_t>(d));
      strategy.push_back(config);
    }
    SimulatedPlan plan(graph, costs, {}, strategy);
    plan.build(1);
    return std::pair(replayed(plan, CachingAllocator::kUnlimited)[0],
                     peak_memory(plan.expanded, plan.timeline)[0]);
  };
  const Topology topology = make_topology("dgx-h100:gpus=2");
  const std::int64_t state =
      kWidth * kWords * 14;  // weights, and gradients, main weights and a moment in float32: 28 MiB
  for (const bool expandable : {false, true}) {
    Runtime runtime;
    runtime.expandable_segments = expandable;
    const CostModel costs(topology, nullptr, runtime);
    const auto [one, peak] = plan_of(costs, 1);
    EXPECT_TRUE(one.fits);
    const auto least = 3 * 512 * kMiB + state;
    EXPECT_NEAR(static_cast<double>(peak.peak.value), static_cast<double>(least), kMiB);
    EXPECT_NEAR(static_cast<double>(one.allocated.value), static_cast<double>(least), kMiB);
    EXPECT_NEAR(static_cast<double>(one.reserved.value), static_cast<double>(least + 256 * kMiB), 40 * kMiB);
    // With half of the words there are four tensors of 256 MiB in backward.
    const auto [two, peak_of_two] = plan_of(costs, 2);
    const auto least_of_two = 4 * 256 * kMiB + state / 2;
    EXPECT_NEAR(static_cast<double>(peak_of_two.peak.value), static_cast<double>(least_of_two), 2 * kMiB);
    EXPECT_NEAR(static_cast<double>(two.reserved.value), static_cast<double>(least_of_two + 128 * kMiB),
                40 * kMiB);
  }
}

// Whatever the plan, an allocator holds at least what is there at the peak, and with no more memory than it
// reserved it finds room again.
TEST(ReservedMemory, IsAtLeastThePeak) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=4,layers=2,hidden=64,heads=4,kv_heads=2,vocab=480,sequence=64,ffn=96,dtype=bfloat16");
  const Topology topology = make_topology("dgx-h100:gpus=4");
  const CostModel fixed(topology, nullptr, parse_runtime("deepspeed")),
      expandable(topology, nullptr, parse_runtime("torch-compile:segments=expandable"));
  for_each_seed(40, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    if (rng.below(3) == 0) p.options.pipeline.reset();
    p.options.state_sharding = random_state_sharding(rng);
    p.options.optimizer = Optimizer::Adam;
    if (illegal(p.options.state_sharding, p.options.pipeline, p.options.microbatches))
      p.options.state_sharding = {};
    SimulatedPlan plan(graph, rng.below(2) == 0 ? fixed : expandable, p.options, p.strategy);
    plan.build(0);
    const std::vector<DeviceMemory> peaks = peak_memory(plan.expanded, plan.timeline);
    const std::vector<ReservedMemory> held = replayed(plan, CachingAllocator::kUnlimited);
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      EXPECT_TRUE(held[d].fits);
      EXPECT_GE(held[d].allocated, peaks[d].peak) << "device " << d;
      EXPECT_GE(held[d].reserved, held[d].allocated);
      EXPECT_EQ(replayed(plan, held[d].reserved)[d], held[d]);
      if (peaks[d].peak.value == 0) continue;
      EXPECT_FALSE(replayed(plan, peaks[d].peak - Bytes(1))[d].fits);
    }
  });
}

}  // namespace
}  // namespace pipesim
