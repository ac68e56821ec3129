// Steps beside each other as one call.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// A pass of a microbatch through a stage on a device.
using PassOnDevice =
    std::tuple<bool, std::int32_t, std::int32_t, std::int64_t>;  // forward, stage, microbatch, device

struct TimesOfPass {
  Nanoseconds begin = INT64_MAX, end = 0;           // of compute
  Nanoseconds arrived = 0, first_sent = INT64_MAX;  // from and to other groups
};

class PairGatesTest : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static ReplicaPlan planned(const OperatorGraph& graph) {
    ReplicaPlan plan = plan_in_both(graph, {2, 4, 2}, GetParam());
    plan.options.microbatches = 12;
    return plan;
  }

  [[nodiscard]] std::int32_t group_of(DeviceId d) const { return order_.group_of[d.index()]; }
  [[nodiscard]] bool is_forward(TaskKind kind) const {
    return kind == TaskKind::Forward || kind == TaskKind::ForwardTransfer;
  }

  // Returns the stage of the first source that is on the device. A device has several stages.
  [[nodiscard]] std::int32_t stage_that_sends(const Wiring& w, DeviceId device) const {
    const BoundStrategy& strategy = contents_.strategy_of(w.microbatch, bound_);
    for (const UseRef source : w.sources) {
      if (strategy[source.op.index()]->shard_of_device[device.index()] >= 0)
        return contents_.stage_of(source.op);
    }
    ADD_FAILURE() << "nobody sends";
    return 0;
  }

  [[nodiscard]] std::map<PassOnDevice, TimesOfPass> passes(const ExpandedStrategy& expanded,
                                                           const Timeline& timeline) {
    std::map<PassOnDevice, TimesOfPass> passes;
    const std::vector<TaskLabel>& labels = expanded.graph().labels;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      const TaskLabel& label = labels[t];
      if (!is_pass(label.kind)) continue;
      const PassOnDevice pass(is_forward(label.kind), contents_.stage_of(label.op), label.microbatch,
                              label.device.value);
      passes[pass].begin = std::min(passes[pass].begin, timeline.start[t]);
      passes[pass].end = std::max(passes[pass].end, timeline.end[t]);
    }
    for (const Wiring& w : expanded.wirings()) {
      if (w.kind != TaskKind::ForwardTransfer && w.kind != TaskKind::BackwardTransfer) continue;
      for (std::size_t i = 0; i < w.plan->tasks.size(); ++i) {
        const CommunicationTask& task = w.plan->tasks[i];
        if (task.kind != Collective::Send || group_of(task.group.front()) == group_of(task.group.back()))
          continue;
        ++crossings_;
        const std::size_t at = w.task(i).index();
        TimesOfPass& from = passes.at({is_forward(w.kind), stage_that_sends(w, task.group.front()),
                                       w.microbatch, task.group.front().value});
        from.first_sent = std::min(from.first_sent, timeline.start[at]);
        TimesOfPass& to = passes.at({is_forward(w.kind), contents_.stage_of(w.destinations.front().op),
                                     w.microbatch, task.group.back().value});
        to.arrived = std::max(to.arrived, timeline.end[at]);
      }
    }
    return passes;
  }

  OperatorGraph graph_ =
      make_zoo_model("gpt:batch=4,layers=8,hidden=64,heads=4,sequence=32,vocab=64,positions=32");
  Topology topology_ = make_topology("levels:16@10GB/s");
  CostModel costs_{topology_};
  ReplicaPlan plan_ = planned(graph_);
  PlanContents contents_{graph_, costs_, plan_.options};
  BoundStrategy bound_ = contents_.bind(plan_.strategy);
  PipelineOrder order_;
  std::int64_t crossings_ = 0;
};

TEST_P(PairGatesTest, BeginWithWhatBothWaitForAndSendWhenBothHaveEnded) {
  ExpandedStrategy expanded(contents_);
  order_ = contents_.order_of(bound_, plan_.options.microbatches);
  expanded.expand(bound_, {.labels = Labels::Make});
  std::map<PassOnDevice, TimesOfPass> all = passes(expanded, simulate(expanded.dag()));
  EXPECT_GT(crossings_, 0);
  std::int64_t pairs = 0;
  bool one_waits_for_the_other = false;
  for (std::size_t d = 0; d < order_.group_of.size(); ++d) {
    if (group_of(DeviceId(d)) < 0) continue;
    const std::vector<PipelineStep>& steps = order_.steps[static_cast<std::size_t>(group_of(DeviceId(d)))];
    for (std::size_t i = 1; i < steps.size(); ++i) {
      if (!steps[i].beside) continue;
      ++pairs;
      const auto times = [&](const PipelineStep& s) {
        return all.at({s.kind == StepKind::Forward, s.stage, s.microbatch, static_cast<std::int64_t>(d)});
      };
      const TimesOfPass forward = times(steps[i - 1]), backward = times(steps[i]);
      const Nanoseconds begin = std::min(forward.begin, backward.begin),
                        end = std::max(forward.end, backward.end);
      EXPECT_GE(begin, std::max(forward.arrived, backward.arrived));
      EXPECT_GE(std::min(forward.first_sent, backward.first_sent), end);
      one_waits_for_the_other |= forward.arrived != backward.arrived && begin > 0;
    }
  }
  EXPECT_GT(pairs, 0);
  EXPECT_TRUE(one_waits_for_the_other);
}

INSTANTIATE_TEST_SUITE_P(Schedules, PairGatesTest,
                         testing::Values("dualpipe", "dualpipe-v", "interleaved-beside:4"),
                         [](const testing::TestParamInfo<std::string>& of) {
                           return std::string(of.param == "dualpipe"     ? "dualpipe"
                                              : of.param == "dualpipe-v" ? "dualpipe_v"
                                                                         : "interleaved_beside");
                         });

}  // namespace
}  // namespace pipesim
