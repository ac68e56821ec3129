#include "taskgraph/plan/stage_messages.h"

#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Four stages of one device each, in four copies.
class StageMessagesTest : public testing::Test {
 protected:
  struct Counts {
    int messages = 0, beside = 0;  ///< these while their sender or receiver computes
    int collectives_beside = 0;
    Nanoseconds makespan = 0;
  };

  [[nodiscard]] Counts run(const std::string& schedule, std::optional<StageMessages> messages,
                           std::string_view runtime) const {
    ReplicaPlan plan = plan_in_both(graph_, {1, 4, 4}, schedule);
    plan.options.pipeline->messages = messages;
    const CostModel costs(topology_, nullptr, parse_runtime(runtime));
    const PlanContents contents(graph_, costs, plan.options);
    ExpandedStrategy expanded(contents);
    expanded.expand(contents.bind(plan.strategy), {.labels = Labels::Make});
    const Timeline timeline = simulate(expanded.dag());
    const std::vector<TaskLabel>& labels = expanded.graph().labels;
    const auto overlap = [&](std::size_t a, std::size_t b) {
      return timeline.start[a] < timeline.end[b] && timeline.start[b] < timeline.end[a];
    };
    const auto computes_beside = [&](std::size_t message) {
      for (std::size_t t = 0; t < labels.size(); ++t) {
        const bool there =
            labels[t].device == labels[message].device || labels[t].device == labels[message].peer;
        if (labels[t].kind <= TaskKind::BackwardWeight && there && overlap(t, message)) return true;
      }
      return false;
    };
    Counts counts;
    counts.makespan = timeline.makespan;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (!is_communication(labels[t].kind) || timeline.start[t] == timeline.end[t]) continue;
      const bool message = labels[t].collective == Collective::Send;
      counts.messages += message ? 1 : 0;
      if (computes_beside(t)) ++(message ? counts.beside : counts.collectives_beside);
    }
    EXPECT_GT(counts.messages, 0);
    return counts;
  }

  OperatorGraph graph_ =
      make_zoo_model("gpt:batch=16,layers=8,hidden=512,heads=4,sequence=64,vocab=128,positions=64");
  Topology topology_ = make_topology("levels:16@10GB/s");
};

TEST_F(StageMessagesTest, KeepDevicesFromComputing) {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}) {
    SCOPED_TRACE(schedule);
    const Counts beside = run(schedule, StageMessages::Beside, "pipesim");
    const Counts blocking = run(schedule, StageMessages::Blocking, "pipesim");
    EXPECT_GT(beside.beside, 0);
    EXPECT_EQ(blocking.beside, 0);
    EXPECT_EQ(blocking.messages, beside.messages);
    EXPECT_GT(blocking.makespan, beside.makespan);
    // Gradients are reduced beside compute all the same.
    EXPECT_GT(blocking.collectives_beside, 0);
  }
}

TEST_F(StageMessagesTest, FollowTheRuntimeUnlessThePlanSaysIt) {
  for (const char* schedule : {"1f1b", "interleaved"}) {
    SCOPED_TRACE(schedule);
    const bool plain = std::string_view(schedule) == "1f1b";
    for (const auto& [runtime, blocks] : {std::pair("pipesim", false),
                                          {"pipesim:messages=blocking", true},
                                          {"pipesim:messages=blocking-in-1f1b", plain}}) {
      EXPECT_EQ(run(schedule, std::nullopt, runtime).beside == 0, blocks) << runtime;
      EXPECT_GT(run(schedule, StageMessages::Beside, runtime).beside, 0) << runtime;
      EXPECT_EQ(run(schedule, StageMessages::Blocking, runtime).beside, 0) << runtime;
    }
  }
  for (const char* framework : {"megatron", "torch-eager", "nanotron", "internevo"})
    EXPECT_EQ(parse_runtime(framework).messages, MessageOverlap::UnlessPlain) << framework;
}

}  // namespace
}  // namespace pipesim
