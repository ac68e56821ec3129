// Tokens on their way to experts, by what runs the plan.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>
#include <string>

#include "costmodel/runtime/dispatcher.h"
#include "models/zoo/zoo.h"
#include "search/evaluator.h"
#include "search/recipes/expand_recipe.h"
#include "search/recipes/recipe.h"
#include "sim/base/errors.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr std::int32_t kMicrobatches = 4;

/// Two layers with experts on two devices, which have half of the experts each.
class DispatchedPlan {
 public:
  explicit DispatchedPlan(const std::string& runtime, const std::string& schedule = "")
      : graph_(make_zoo_model("mixtral-8x7b:batch=2,layers=2,sequence=4096,token_groups=1")),
        topology_(make_topology("dgx-h100:gpus=2")),
        costs_(topology_, nullptr, parse_runtime(runtime)) {
    const Recipe recipe = parse_recipe("dp2,ep2,mbs1" + (schedule.empty() ? "" : ",schedule=" + schedule));
    RecipeStrategy made = expand_recipe(recipe, RecipeModel(graph_), topology_);
    made.apply_to(options_);
    options_.microbatches = kMicrobatches;
    strategy_ = made.strategy;
  }

  [[nodiscard]] Evaluated evaluated(const EvaluationRequest& request) {
    Evaluator evaluator(graph_, costs_, options_);
    return evaluator.evaluate(strategy_, request);
  }
  [[nodiscard]] Nanoseconds time() { return evaluated({}).cost->time; }
  /// Returns what the first device's exchanges of tokens take, and how long compute or interference run
  /// beside.
  struct Exchanges {
    Nanoseconds all = 0, beside = 0, taken = 0, moving = 0, compute = 0;
  };
  [[nodiscard]] Exchanges exchanges() {
    const Evaluated found = evaluated({.extent = Extent::All, .part = Labels::Make});
    const TaskGraph& tasks = found.part->task_graph();
    const Timeline& timeline = found.part->timeline();
    Exchanges sums;
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      if (label.kind == TaskKind::Interference && label.device == DeviceId(0))
        sums.taken += timeline.end[t] - timeline.start[t];
      if (is_pass(label.kind) && label.device == DeviceId(0))
        sums.compute += timeline.end[t] - timeline.start[t];
      const bool moves = label.kind == TaskKind::ForwardTransfer || label.kind == TaskKind::BackwardTransfer;
      if (!moves || label.collective != Collective::AllToAll) continue;
      sums.all += timeline.end[t] - timeline.start[t];
      Nanoseconds moving = 0;
      for (const LaneUse use : tasks.dag.lanes(TaskId(t))) {
        if (use.lane.index() >= topology_.num_devices()) moving = std::max(moving, use.hold);
      }
      sums.moving += moving;
      for (std::size_t c = 0; c < tasks.labels.size(); ++c) {
        if (!is_pass(tasks.labels[c].kind) || tasks.labels[c].device != DeviceId(0)) continue;
        sums.beside += std::max<Nanoseconds>(
            0, std::min(timeline.end[t], timeline.end[c]) - std::max(timeline.start[t], timeline.start[c]));
      }
    }
    return sums;
  }

 private:
  OperatorGraph graph_;
  Topology topology_;
  CostModel costs_;
  PlanOptions options_;
  Strategy strategy_;
};

TEST(Dispatcher, HoldsUpComputeUnlessForwardRunsBesideBackward) {
  const DispatchedPlan::Exchanges free = DispatchedPlan("pipesim").exchanges(),
                                  alone = DispatchedPlan("pipesim:dispatcher=alltoall").exchanges(),
                                  beside =
                                      DispatchedPlan("pipesim:dispatcher=alltoall", "interleaved-beside:1")
                                          .exchanges();
  EXPECT_GT(free.all, 0);
  EXPECT_GT(free.beside, 0);
  EXPECT_EQ(alone.all, free.all);
  EXPECT_EQ(alone.beside, 0);
  EXPECT_EQ(beside.all, free.all);
  EXPECT_GT(beside.beside, beside.all / 2);
  EXPECT_EQ(alone.taken, 0);
}

// Some of 132 multiprocessors copy tokens while they travel. On the others products keep 9/14 of their rate:
// where 24 of 108 copied, half of all was left.
TEST(Dispatcher, TakesItsMultiprocessors) {
  for (const int taken : {16, 32}) {
    const DispatchedPlan::Exchanges beside =
        DispatchedPlan(fmt::format("pipesim:dispatcher=alltoall,dispatcher-multiprocessors={}", taken),
                       "interleaved-beside:1")
            .exchanges();
    EXPECT_NEAR(static_cast<double>(beside.taken),
                static_cast<double>(beside.moving) * (1 - (1 - taken / 132.0) * 9 / 14),
                1e-3 * static_cast<double>(beside.taken));
  }
}

// Without overlap an iteration takes compute and exchanges, one after the other; with it, compute and what
// the multiprocessors that copy tokens take of it.
TEST(Dispatcher, LeavesComputeOrTakesAPartOfIt) {
  DispatchedPlan alone("pipesim:dispatcher=alltoall"),
      beside("pipesim:dispatcher=alltoall", "interleaved-beside:1");
  const DispatchedPlan::Exchanges of_alone = alone.exchanges(), of_beside = beside.exchanges();
  EXPECT_EQ(of_alone.compute, of_beside.compute);
  EXPECT_GE(alone.time(), of_alone.compute + of_alone.all);
  EXPECT_GE(beside.time(), of_beside.compute + of_beside.taken);
  EXPECT_LT(beside.time(), alone.time());
}

// One device of those that are alike, and few microbatches, show the same as all.
TEST(Dispatcher, FoldedPlansTakeAsLong) {
  for (const char* dispatcher : {"alltoall", "deepep", "hybridep"}) {
    for (const char* schedule : {"", "interleaved-beside:1"}) {
      DispatchedPlan plan(std::string("pipesim:dispatcher=") + dispatcher, schedule);
      const Nanoseconds whole = plan.evaluated({.extent = Extent::All}).cost->time;
      EXPECT_EQ(plan.time(), whole) << dispatcher << schedule;
    }
  }
}

TEST(Dispatcher, NeedsKnownMultiprocessors) {
  EXPECT_NEAR(dispatcher_work(parse_runtime("pipesim:dispatcher=deepep"), "H100-SXM5", false).share,
              1 - 112.0 / 132 * 9 / 14, 1e-12);
  EXPECT_EQ(dispatcher_work(parse_runtime("pipesim"), "P100-PCIe", false).multiprocessors, 0);
  EXPECT_THROW((void)dispatcher_work(parse_runtime("pipesim:dispatcher=deepep"), "P100-PCIe", false),
               InputError);
}

}  // namespace
}  // namespace pipesim
