#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "taskgraph/plan/plan.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr std::int32_t kDevices = 4;

/// Products one behind the other, whose samples four GPUs of a node divide, under a runtime.
class Replicated {
 public:
  explicit Replicated(const std::string& runtime, const char* sharding = "none")
      : topology_(make_topology("dgx-a100:gpus=4")),
        runtime_(parse_runtime(runtime)),
        graph_(products_of_samples()) {
    for (const Operator& op : graph_.operators()) {
      ParallelConfig config = single_device(op, DeviceId(0));
      config.degrees[static_cast<std::size_t>(op.factor("b"))] = kDevices;
      config.devices.clear();
      for (std::int32_t d = 0; d < kDevices; ++d) config.devices.emplace_back(d);
      strategy_.push_back(config);
    }
    options_.state_sharding = parse_state_sharding(sharding);
    options_.microbatches = 1;
    costs_ = std::make_unique<CostModel>(topology_, nullptr, runtime_);
    plan_ = std::make_unique<SimulatedPlan>(graph_, *costs_, options_, strategy_);
    plan_->build(options_.microbatches);
  }

  [[nodiscard]] Nanoseconds makespan() const { return plan_->timeline.makespan; }
  [[nodiscard]] std::vector<TaskId> tasks(TaskKind kind) const {
    std::vector<TaskId> found;
    for (std::size_t t = 0; t < plan_->tasks.labels.size(); ++t) {
      if (plan_->tasks.labels[t].kind == kind) found.emplace_back(t);
    }
    return found;
  }
  [[nodiscard]] std::vector<TaskLabel> labels(TaskKind kind) const {
    std::vector<TaskLabel> found;
    for (const TaskId t : tasks(kind)) found.push_back(plan_->tasks.labels[t.index()]);
    return found;
  }
  /// Returns the time that interference takes from the first device's compute lane.
  [[nodiscard]] Nanoseconds taken() const {
    Nanoseconds sum = 0;
    for (const TaskId t : tasks(TaskKind::Interference)) {
      if (plan_->tasks.labels[t.index()].device == DeviceId(0)) sum += plan_->tasks.dag.duration(t);
    }
    return sum;
  }
  /// Returns how long all collectives of a kind move bytes. Each has all devices.
  [[nodiscard]] Nanoseconds moving(TaskKind kind) const {
    Nanoseconds sum = 0;
    for (const TaskId t : tasks(kind)) {
      Nanoseconds longest = 0;
      for (const LaneUse use : plan_->tasks.dag.lanes(t)) longest = std::max(longest, use.hold);
      sum += longest;
    }
    return sum;
  }

 private:
  static constexpr std::int64_t kRows = 32768, kWidth = 4096;
  static OperatorGraph products_of_samples() {
    GraphBuilder b("products", kRows);
    TensorId x = b.data("x", {kRows, kWidth});
    for (int l = 0; l < 6; ++l)
      x = b.add("linear", "fc" + std::to_string(l), {x},
                {{"out", std::vector<std::int64_t>{kWidth}}, {"bias", 0}});
    return b.build();
  }
  Topology topology_;
  Runtime runtime_;
  OperatorGraph graph_;
  Strategy strategy_;
  PlanOptions options_;
  std::unique_ptr<CostModel> costs_;
  std::unique_ptr<SimulatedPlan> plan_;
};

// All reductions but that of the first product run beside backward, which they hold up by half their time.
TEST(Interference, TakesComputeWhileBytesMove) {
  const Replicated without("pipesim"), with("pipesim:interference=0.5");
  const Nanoseconds moving = with.moving(TaskKind::GradientSync);
  EXPECT_EQ(moving, without.moving(TaskKind::GradientSync));
  EXPECT_THAT(without.tasks(TaskKind::Interference), testing::IsEmpty());
  EXPECT_EQ(with.tasks(TaskKind::Interference).size(), 6U * kDevices);
  for (const TaskLabel& label : with.labels(TaskKind::Interference)) EXPECT_TRUE(label.op.valid());
  EXPECT_NEAR(static_cast<double>(with.taken()), 0.5 * static_cast<double>(moving), 6.0);
  const Nanoseconds later = with.makespan() - without.makespan();
  EXPECT_THAT(later, AllOf(Ge(with.taken() * 4 / 6), Le(with.taken())));
}

TEST(Interference, LeavesWhatNothingRunsBeside) {
  const Replicated without("pipesim:overlap=never"), with("pipesim:overlap=never,interference=1");
  EXPECT_THAT(with.tasks(TaskKind::Interference), testing::IsEmpty());
  EXPECT_EQ(with.makespan(), without.makespan());
}

TEST(Interference, IsThatOfGathersToo) {
  const Replicated with("pipesim:interference=0.25", "zero3");
  const Nanoseconds moving = with.moving(TaskKind::GradientSync) + with.moving(TaskKind::WeightGather);
  EXPECT_NEAR(static_cast<double>(with.taken()), 0.25 * static_cast<double>(moving), 20.0);
  // Forward and backward gather every weight once, backward reduces its gradient.
  EXPECT_EQ(with.tasks(TaskKind::Interference).size(), 3U * 6U * kDevices);
  EXPECT_THAT(with.makespan(), AllOf(Ge(Replicated("pipesim", "zero3").makespan()),
                                     Le(Replicated("pipesim", "zero3").makespan() + with.taken())));
}

}  // namespace
}  // namespace pipesim
