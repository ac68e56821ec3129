#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/executor/equality_case.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

// Keys come in blocks, one after the other: sinks count once, and windows begin within blocks and between
// them.
TEST(AttentionInRings, ComputesTheSameAsUnsplit) {
  Bench bench;
  bench.learned_inputs = true;
  const std::vector<TensorId> inputs{bench.x({4, 12, 2, 2, 4}), bench.x({4, 12, 2, 4}),
                                     bench.x({4, 12, 2, 8})};
  const Attributes sinks{{"sinks", 1}}, window{{"causal", 1}, {"window", 3}},
      both{{"causal", 1}, {"window", 5}, {"sinks", 1}, {"cap", 1.5}},
      documents{{"causal", 1}, {"window", 3}, {"document_length", 7}, {"sinks", 1}},
      scattered{{"causal", 1}, {"window", 5}, {"sinks", 1}, {"zigzag", 3}};
  for (const Attributes& attributes : {sinks, window, both, documents, scattered})
    bench.op("attention", inputs, attributes);
  bench.op("alibi_attention", inputs, both);
  const OperatorGraph graph = bench.builder.build();
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(most_devices);
  const LargerRows source(graph);
  Reference reference(graph, costs, world, source);
  for (const std::int32_t members : {2, 3, 6}) {
    Strategy strategy;
    for (const Operator& op : graph.operators()) {
      ParallelConfig& config = strategy.emplace_back(single_device(op, DeviceId(0)));
      if (!op.rotation) continue;
      config.ring = true;
      config.degrees[static_cast<std::size_t>(op.rotation->first)] = members;
      for (std::int32_t member = 1; member < members; ++member) config.devices.emplace_back(member);
    }
    for (const TensorError& e : reference.errors_of_first_step(strategy))
      EXPECT_LE(e.error, 1e-5) << e.name << " in a ring of " << members;
  }
}

}  // namespace
}  // namespace pipesim
