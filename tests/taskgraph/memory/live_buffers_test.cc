#include <gmock/gmock.h>

#include <array>
#include <set>
#include <string>
#include <utility>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/memory_changes.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// What is listed at a peak adds up to the peak in each category, and names each operator there once.
TEST(LiveBuffers, AddUpToThePeak) {
  const std::string model =
      "llama:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,dtype=bfloat16";
  const OperatorGraph plain = make_zoo_model(model), adapted = make_zoo_model(model + ",lora=2,base=4bit"),
                      in_float8 = make_zoo_model(model + ",products=float8"),
                      narrow = make_zoo_model(model + ",products=float8,swiglu=fused,swiglu_inputs=float8");
  const Topology topology = make_topology("dgx-h100:gpus=4");
  const CostModel without(topology),
      deepspeed(topology, nullptr, parse_runtime("deepspeed:step-part=900,buckets=700")),
      lists(topology, nullptr, parse_runtime("deepspeed:step-part=900,buckets=700,optimizer-kernel=foreach")),
      one_by_one(topology, nullptr, parse_runtime("torch-eager:optimizer-kernel=single"));
  for_each_seed(60, [&](Rng& rng) {
    const OperatorGraph* const graphs[] = {&plain, &narrow, &adapted, &in_float8};
    const OperatorGraph& graph = *graphs[rng.below(std::size(graphs))];
    RandomPipeline p = random_pipeline(graph, rng, topology);
    if (rng.below(2) == 0) p.options.gathered_inputs = GatheredInputs::Again;
    if (rng.below(3) == 0) p.options.pipeline.reset();
    p.options.state_sharding = random_state_sharding(rng);
    p.options.optimizer = Optimizer::Adam;
    if (illegal(p.options.state_sharding, p.options.pipeline, p.options.microbatches))
      p.options.state_sharding = {};
    constexpr std::array recomputes{"none", "selective", "full", "op", "mlp"};
    const Recompute recompute = parse_recompute(recomputes[rng.below(recomputes.size())]);
    if (!illegal(graph, recompute, p.options.pipeline)) p.options.recompute = recompute;
    p.options.gradient_type = rng.below(2) == 0 ? DataType::BFloat16 : DataType::Float32;
    const CostModel* const all_costs[] = {&without, &deepspeed, &lists, &one_by_one};
    const PlanContents contents(graph, *all_costs[rng.below(std::size(all_costs))], p.options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(p.strategy), {});
    const Timeline timeline = simulate(expanded.dag());
    const std::vector<DeviceMemory> peaks = peak_memory(expanded, timeline);
    const TaskTimes times{timeline, expanded.microbatches(), expanded.tasks_of_one_microbatch(),
                          expanded.block()};
    const std::vector<Bytes> allocated = allocated_memory(expanded);
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      EXPECT_LE(peaks[d].peak, allocated[d]);
      std::array<Bytes, kMemoryCategories> sums{};
      std::set<std::pair<OperatorId, MemoryCategory>> seen;
      for (const LiveBuffer& live : live_buffers(expanded, times, DeviceId(d), peaks[d].when)) {
        sums[static_cast<std::size_t>(live.category)] += live.bytes;
        EXPECT_GT(live.bytes.value, 0);
        EXPECT_GE(live.count, 1);
        EXPECT_TRUE(seen.insert({live.op, live.category}).second);
      }
      EXPECT_EQ(sums, peaks[d].at_peak) << "device " << d;
    }
  });
}

// When the gradient of a weight is made, the gradient of the product's result is there: as it came, or, once
// the pass of the input's gradient has cast it, in 8 bits alone.
TEST(LiveBuffers, ProductsInFloat8LeaveACopyOfTheGradientForWeights) {
  constexpr std::int64_t kRows = 64, kWidth = 32;
  for (const bool float8 : {false, true}) {
    GraphBuilder builder("products", kRows, DataType::BFloat16);
    if (float8) builder.multiply_in("float8", false);
    const TensorId words = builder.data("words", {kRows, kWidth}, DataType::BFloat16);
    builder.begin_repeat("layer", 1);
    const Attributes attributes{{"out", kWidth}, {"bias", std::int64_t{0}}};
    const TensorId first = builder.add("linear", "first", {words}, attributes);
    builder.add("relu", "relu", {builder.add("linear", "second", {first}, attributes)});
    builder.end_repeat();
    const OperatorGraph graph = builder.build();
    const Topology topology = make_topology("dgx-h100:1");
    const CostModel costs(topology);
    PlanOptions options;
    options.microbatches = 4;
    options.pipeline = Pipeline{"zb-h1", {0, 1, 1}};
    Strategy strategy;
    for (std::size_t i = 0; i < 3; ++i)
      strategy.push_back(single_device(graph.operators()[i], DeviceId(i == 0 ? 0 : 1)));
    SimulatedPlan plan(graph, costs, options, strategy);
    plan.build(options.microbatches);
    const TaskTimes times{plan.timeline, options.microbatches, plan.expanded.tasks_of_one_microbatch(),
                          plan.expanded.block()};
    std::int32_t looked_at = 0;
    for (std::size_t t = 0; t < plan.tasks.labels.size(); ++t) {
      const TaskLabel& label = plan.tasks.labels[t];
      if (label.kind != TaskKind::BackwardWeight || label.op != OperatorId(1) || label.microbatch != 0)
        continue;
      ++looked_at;
      std::int64_t bytes = 0;
      for (const LiveBuffer& live : live_buffers(plan.expanded, times, DeviceId(1), plan.timeline.start[t])) {
        if (live.category == MemoryCategory::ActivationGradients && live.op == label.op)
          bytes += live.bytes.value / live.count;
      }
      EXPECT_EQ(bytes, kRows * kWidth * (float8 ? 1 : 2));
    }
    EXPECT_EQ(looked_at, 1);
  }
}

}  // namespace
}  // namespace pipesim
