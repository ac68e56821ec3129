#include "taskgraph/binding/product_overlap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "models/zoo/zoo.h"
#include "search/recipes/expand_recipe.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// A Llama under tensor and sequence parallelism.
class SequenceParallelTest : public testing::Test {
 protected:
  explicit SequenceParallelTest(const char* topology = "dgx-h100:1") : topology_(make_topology(topology)) {}

  void run(const std::string& recipe, const std::string& runtime) {
    costs_ = std::make_unique<CostModel>(topology_, nullptr, parse_runtime(runtime));
    PlanOptions options;
    const RecipeStrategy made = expand_recipe(parse_recipe(recipe), RecipeModel(graph_), topology_);
    made.apply_to(options);
    plan_ = std::make_unique<SimulatedPlan>(graph_, *costs_, options, made.strategy);
    plan_->build(1);
  }

  // The longest transfer of a tensor in forward, and the product that it feeds or stems from.
  [[nodiscard]] Nanoseconds transfer_of(const std::string& tensor) const {
    Nanoseconds longest = 0;
    const TaskGraph& tasks = plan_->tasks;
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      if (label.kind == TaskKind::ForwardTransfer && graph_.tensor(label.tensor).name == tensor)
        longest = std::max(longest, plan_->timeline.end[t] - plan_->timeline.start[t]);
    }
    return longest;
  }
  [[nodiscard]] Nanoseconds forward_of(const std::string& name) const {
    for (const BoundOperator* bound : plan_->bound) {
      if (bound->op->name == name) return bound->forward.durations.front();
    }
    return -1;
  }

  OperatorGraph graph_ = make_zoo_model("llama:batch=8,layers=2,hidden=2048,heads=16,kv_heads=16,ffn=5632");
  Topology topology_;
  std::unique_ptr<CostModel> costs_;
  std::unique_ptr<SimulatedPlan> plan_;
};

TEST_F(SequenceParallelTest, GathersRunBesideTheProductsThatReadThem) {
  run("tp8,dp1,mbs8,sp", "pipesim");
  const Nanoseconds gather = transfer_of("layer1.attention_norm"), sum = transfer_of("layer1.down"),
                    all = plan_->timeline.makespan;
  ASSERT_GT(gather, 0);
  ASSERT_GT(sum, 0);
  run("tp8,dp1,mbs8,sp", "pipesim:tensor-overlap=always");
  const Nanoseconds products =
      forward_of("layer1.query") + forward_of("layer1.key") + forward_of("layer1.value");
  const auto expected = [](Nanoseconds transfer, Nanoseconds product) {
    return static_cast<Nanoseconds>(
        std::ceil(static_cast<double>(transfer) * share_beside_product(transfer, product, 8)));
  };
  EXPECT_EQ(transfer_of("layer1.attention_norm"), expected(gather, products));
  EXPECT_EQ(transfer_of("layer1.down"), expected(sum, forward_of("layer1.down")));
  EXPECT_LT(transfer_of("layer1.attention_norm"), gather);
  EXPECT_LT(plan_->timeline.makespan, all);
}

// Sums of whole tensors, and what goes over nodes, are not cut into parts.
TEST_F(SequenceParallelTest, OtherTransfersTakeTheirTime) {
  run("tp8,dp1,mbs8", "pipesim");
  const Nanoseconds all = plan_->timeline.makespan;
  run("tp8,dp1,mbs8", "pipesim:tensor-overlap=always");
  EXPECT_EQ(plan_->timeline.makespan, all);
}

class TwoNodesTest : public SequenceParallelTest {
 protected:
  TwoNodesTest() : SequenceParallelTest("dgx-h100:2") {}
};

TEST_F(TwoNodesTest, TransfersBetweenNodesTakeTheirTime) {
  run("tp16,dp1,mbs8,sp", "pipesim");
  const Nanoseconds all = plan_->timeline.makespan;
  run("tp16,dp1,mbs8,sp", "pipesim:tensor-overlap=always");
  EXPECT_EQ(plan_->timeline.makespan, all);
}

}  // namespace
}  // namespace pipesim
