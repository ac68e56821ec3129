#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Four stages of one device each, in four copies: gradients travel over the links that stages send over.
class GradientReductionTest : public testing::Test {
 protected:
  struct Times {
    std::map<DeviceId, Nanoseconds> last_step;  ///< end of the last forward or backward
    Nanoseconds first_reduction = INT64_MAX;    ///< after the end of its device's steps; below 0: before
    Nanoseconds steps = 0, makespan = 0;
  };

  [[nodiscard]] Times run(const std::string& schedule, GradientReduction reduction) const {
    ReplicaPlan plan = plan_in_both(graph_, {1, 4, 4}, schedule);
    plan.options.gradient_reduction = reduction;
    const PlanContents contents(graph_, costs_, plan.options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(plan.strategy), {.labels = Labels::Make});
    const Timeline timeline = simulate(expanded.dag());
    Times times;
    times.makespan = timeline.makespan;
    const std::vector<TaskLabel>& labels = expanded.graph().labels;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t].kind > TaskKind::BackwardWeight) continue;
      Nanoseconds& last = times.last_step[labels[t].device];
      last = std::max(last, timeline.end[t]);
      times.steps = std::max(times.steps, last);
    }
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t].kind == TaskKind::GradientSync)
        times.first_reduction =
            std::min(times.first_reduction, timeline.start[t] - times.last_step.at(labels[t].device));
    }
    return times;
  }

  OperatorGraph graph_ =
      make_zoo_model("gpt:batch=16,layers=8,hidden=512,heads=4,sequence=64,vocab=128,positions=64");
  Topology topology_ = make_topology("levels:16@10GB/s");
  CostModel costs_{topology_};
};

TEST_F(GradientReductionTest, BeginsWhenTheStepsOfTheDeviceAreDone) {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}) {
    SCOPED_TRACE(schedule);
    EXPECT_GE(run(schedule, GradientReduction::AfterSteps).first_reduction, 0);
    EXPECT_LT(run(schedule, GradientReduction::Overlapped).first_reduction, 0);
  }
}

// Else those of devices that end first would all go before one in which others take part, and the others
// would wait for them.
TEST_F(GradientReductionTest, BeginsAtOneTimeOnAllDevicesOfAStage) {
  for (const char* schedule : {"1f1b", "gpipe", "dualpipe", "chimera"}) {
    SCOPED_TRACE(schedule);
    ReplicaPlan plan = plan_in_both(graph_, {2, 4, 2}, schedule);
    plan.options.gradient_reduction = GradientReduction::AfterSteps;
    const PlanContents contents(graph_, costs_, plan.options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(plan.strategy), {.labels = Labels::Make});
    const Timeline timeline = simulate(expanded.dag());
    const std::vector<TaskLabel>& labels = expanded.graph().labels;
    // By groups of the pipeline of four devices each: the end of the steps.
    std::vector<Nanoseconds> end(4, 0);
    for (std::size_t t = 0; t < labels.size(); ++t) {
      Nanoseconds& of_group = end[labels[t].device.index() / 4];
      if (labels[t].kind <= TaskKind::BackwardWeight) of_group = std::max(of_group, timeline.end[t]);
    }
    int reductions = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t].kind != TaskKind::GradientSync) continue;
      EXPECT_GT(timeline.start[t], end[labels[t].device.index() / 4]);
      ++reductions;
    }
    EXPECT_GT(reductions, 8);
  }
}

// Beside backward, what stages wait for queues up behind a piece or two of gradients, but not behind all that
// are ready; and the last reductions come sooner.
TEST_F(GradientReductionTest, KeepsNoStageWaiting) {
  const Times beside = run("1f1b", GradientReduction::Overlapped);
  const Times behind = run("1f1b", GradientReduction::AfterSteps);
  EXPECT_LT(behind.steps, beside.steps);
  EXPECT_LT(beside.steps, behind.steps + behind.steps / 10);
  EXPECT_LT(beside.makespan, behind.makespan);
}

}  // namespace
}  // namespace pipesim
