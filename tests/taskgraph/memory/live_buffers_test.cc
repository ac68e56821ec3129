#include <gmock/gmock.h>

#include <array>
#include <set>
#include <string>
#include <utility>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/memory_changes.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// What is listed at a peak adds up to the peak in each category, and names each operator there once.
TEST(LiveBuffers, AddUpToThePeak) {
  const std::string model =
      "llama:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24,dtype=bfloat16";
  const OperatorGraph plain = make_zoo_model(model), adapted = make_zoo_model(model + ",lora=2,base=4bit"),
                      in_float8 = make_zoo_model(model + ",products=float8");
  const Topology topology = make_topology("dgx-h100:gpus=4");
  const CostModel without(topology),
      costs(topology, nullptr, parse_runtime("deepspeed:step-part=900,buckets=700"));
  for_each_seed(60, [&](Rng& rng) {
    const OperatorGraph* const graphs[] = {&plain, &plain, &adapted, &in_float8};
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
    const PlanContents contents(graph, p.options.microbatches % 3 == 0 ? without : costs, p.options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(p.strategy), {});
    const Timeline timeline = simulate(expanded.dag());
    const std::vector<DeviceMemory> peaks = peak_memory(expanded, timeline);
    const TaskTimes times{timeline, expanded.microbatches(), expanded.tasks_of_one_microbatch(),
                          expanded.block()};
    for (std::size_t d = 0; d < peaks.size(); ++d) {
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

}  // namespace
}  // namespace pipesim
