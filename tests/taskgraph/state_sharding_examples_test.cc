#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/replica_plans.h"

namespace pipesim {
namespace {

constexpr std::int64_t kCopies = 8;

/// Copies of a model, each with its own samples.
struct Copies {
  Copies(const char* model, const std::string& sharding, std::int32_t microbatches = 1)
      : graph(make_zoo_model(model)), options(options_of(sharding, microbatches)) {
    Strategy strategy;
    for (const Operator& op : graph.operators())
      strategy.push_back(in_both(op, 0, static_cast<std::int32_t>(kCopies), 1));
    bound = contents.bind(strategy);
    expanded.expand(bound, {.labels = Labels::Make});
  }
  static PlanOptions options_of(const std::string& sharding, std::int32_t microbatches) {
    PlanOptions options;
    options.optimizer = Optimizer::Adam;
    options.microbatches = microbatches;
    options.state_sharding = parse_state_sharding(sharding);
    return options;
  }
  [[nodiscard]] std::int64_t bytes_of(TaskKind kind) const {
    std::int64_t sum = 0;
    for (const TaskLabel& l : expanded.graph().labels) {
      if (l.kind == kind) sum += bytes_on_links(l.collective, l.group_size, l.size);
    }
    return sum;
  }
  [[nodiscard]] std::int64_t parameters() const {
    std::int64_t sum = 0;
    for (const Tensor& t : graph.tensors()) sum += t.kind == TensorKind::Weight ? t.elements() : 0;
    return sum;
  }
  [[nodiscard]] WeightMemory memory() const { return contents.permanent_memory(bound)[3]; }
  [[nodiscard]] DeviceMemory peak() const { return peak_memory(expanded, simulate(expanded.dag()))[3]; }

  OperatorGraph graph;
  Topology topology = make_topology("dgx-a100:1");
  CostModel costs{topology};
  PlanOptions options;
  PlanContents contents{graph, costs, options};
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
};

constexpr const char* kModel =
    "llama:batch=8,layers=3,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64,dtype=bfloat16";

// Bytes a parameter with Adam, 16-bit weights and float32 gradients (Rajbhandari et al., figure 1, where
// gradients have 16 bits).
TEST(DividedState, TakesAsMuchMemoryAsTheClosedForm) {
  for (const char* sharding : {"none", "zero1", "zero2", "zero3"}) {
    SCOPED_TRACE(sharding);
    const Copies c(kModel, sharding);
    const std::int64_t all = c.parameters(), part = all / kCopies;
    const auto kind = c.options.state_sharding.kind;
    EXPECT_EQ(c.memory().weights, Bytes(2 * (kind >= StateSharding::Kind::Weights ? part : all)));
    EXPECT_EQ(c.memory().gradients, Bytes(4 * (kind >= StateSharding::Kind::Gradients ? part : all)));
    EXPECT_EQ(c.memory().optimizer_state, Bytes(12 * (kind >= StateSharding::Kind::Optimizer ? part : all)));
  }
}

// Each device receives (n − 1)/n of what is gathered, and sends as much of what is reduced and scattered.
TEST(DividedState, MovesAsMuchAsTheClosedForm) {
  constexpr std::int32_t kMicrobatches = 3;
  struct Expected {
    const char* sharding;
    std::int64_t reductions, gathers;  // in an iteration
  };
  for (const Expected& e : {Expected{"zero1", 1, 1}, Expected{"zero2", kMicrobatches, 1},
                            Expected{"zero3", kMicrobatches, 2 * kMicrobatches},
                            Expected{"zero3,reshard=never", kMicrobatches, kMicrobatches}}) {
    SCOPED_TRACE(e.sharding);
    const Copies c(kModel, e.sharding, kMicrobatches);
    const std::int64_t moved = (kCopies - 1) * c.parameters();
    EXPECT_EQ(c.bytes_of(TaskKind::GradientSync), e.reductions * moved * 4);
    EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), e.gathers * moved * 2);
  }
  const Copies whole(kModel, "none", kMicrobatches);
  EXPECT_EQ(whole.bytes_of(TaskKind::GradientSync), 2 * (kCopies - 1) * whole.parameters() * 4);
}

// Inside each group the state is divided; across groups the parts are added up.
TEST(DividedState, OfGroupsMovesMoreGradients) {
  const Copies c(kModel, "zero3,shard=4");
  EXPECT_EQ(c.memory().optimizer_state, Bytes(12 * c.parameters() / 4));
  EXPECT_EQ(c.bytes_of(TaskKind::WeightGather), 2 * 2 * 3 * c.parameters() * 2);
}

// Layers ahead of which weights are gathered are held at once; kept ones are held from forward to backward.
TEST(DividedState, HoldsGatheredWeightsAsLongAsTheyAreNeeded) {
  const auto gathered = [](const char* sharding) {
    const Copies c(
        "llama:batch=8,layers=12,hidden=256,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=256,dtype=bfloat16",
        sharding);
    return c.peak().at_peak[static_cast<std::size_t>(MemoryCategory::GatheredWeights)].value;
  };
  const std::int64_t one_ahead = gathered("zero3"), two_ahead = gathered("zero3,prefetch=2"),
                     kept = gathered("zero3,reshard=never");
  EXPECT_GT(one_ahead, 0);
  EXPECT_LT(one_ahead, two_ahead);
  EXPECT_LT(two_ahead, kept);
  EXPECT_EQ(gathered("zero1"), 0);
}

}  // namespace
}  // namespace pipesim
