#include "sim/explain.h"

#include <gmock/gmock.h>

#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

const LaneId kCompute(0), kWire(1);

Explanation nothing() { return {}; }
Explanation input(int task, Nanoseconds ready) { return {Cause::Input, TaskId(task), {}, ready}; }
Explanation lane(LaneId lane, int task, Nanoseconds ready) {
  return {Cause::Lane, TaskId(task), lane, ready};
}

struct Simulated {
  TaskDag dag;
  Timeline timeline;
  explicit Simulated(const std::vector<PlainTask>& tasks) : dag(build(tasks)), timeline(simulate(dag)) {}
  [[nodiscard]] Explanation why(int task) const { return explain(dag, timeline, TaskId(task)); }
};

TEST(Explain, NothingInputOrLane) {
  const Simulated run(
      {{{0, 0}, 5, {{kCompute, 5}}, {}}, {{0, 1}, 4, {{kCompute, 4}}, {}}, {{0, 2}, 1, {}, {0, 1}}});
  EXPECT_EQ(run.why(0), nothing());
  EXPECT_EQ(run.why(1), lane(kCompute, 0, 0));
  EXPECT_EQ(run.why(2), input(1, 9));
}

TEST(Explain, OfInputsThatEndTogetherTheSmallerKey) {
  const Simulated run({{{0, 9}, 5, {}, {}}, {{0, 3}, 5, {}, {}}, {{0, 4}, 1, {}, {0, 1}}});
  EXPECT_EQ(run.why(2), input(1, 5));
}

TEST(Explain, AnInputComesBeforeALaneThatWasFreeAtTheSameTime) {
  const Simulated run({{{0, 0}, 5, {{kCompute, 5}}, {}}, {{0, 1}, 1, {{kCompute, 1}}, {0}}});
  EXPECT_EQ(run.why(1), input(0, 5));
}

TEST(Explain, AnEarlyReleaseCountsFromTheHoldNotTheEnd) {
  // Task 0 holds the link for 3 of its 10 ns and the lane for 7.
  const Simulated run({{{0, 0}, 10, {{kCompute, 7}, {kWire, 3}}, {}},
                       {{0, 1}, 1, {{kWire, 1}}, {}},
                       {{0, 2}, 1, {{kCompute, 1}}, {}}});
  EXPECT_EQ(run.timeline.start, (std::vector<Nanoseconds>{0, 3, 7}));
  EXPECT_EQ(run.why(1), lane(kWire, 0, 0));
  EXPECT_EQ(run.why(2), lane(kCompute, 0, 0));
}

TEST(Explain, TheLaneThatWasFreeLast) {
  const Simulated run({{{0, 0}, 5, {{kCompute, 5}}, {}},
                       {{0, 1}, 8, {{kWire, 8}}, {}},
                       {{0, 2}, 1, {{kCompute, 1}, {kWire, 1}}, {}}});
  EXPECT_EQ(run.why(2), lane(kWire, 1, 0));
}

TEST(Explain, AHoldOfNoTimeStillBlocksThoseBehindIt) {
  // Task 1 waits for the link until 8 and is before task 2 on the lane, which it then holds for 0 ns.
  const Simulated run({{{0, 0}, 8, {{kWire, 8}}, {}},
                       {{0, 1}, 4, {{kCompute, 0}, {kWire, 4}}, {}},
                       {{0, 2}, 1, {{kCompute, 1}}, {}}});
  EXPECT_EQ(run.timeline.start, (std::vector<Nanoseconds>{0, 8, 8}));
  EXPECT_EQ(run.why(2), lane(kCompute, 1, 0));
  EXPECT_EQ(run.why(1), lane(kWire, 0, 0));
}

TEST(Explain, AMeasuredTaskMayStartAfterItsCause) {
  const TaskDag dag =
      build({{{0, 0}, 5, {{kCompute, 5}}, {}}, {{0, 1}, 4, {{kCompute, 4}}, {}}, {{0, 2}, 1, {}, {1}}});
  const Timeline measured{{2, 8, 14}, {7, 12, 15}, 15};
  EXPECT_EQ(explain(dag, measured, TaskId(0)), nothing());
  EXPECT_EQ(explain(dag, measured, TaskId(1)), lane(kCompute, 0, 0));
  EXPECT_EQ(explain(dag, measured, TaskId(2)), input(1, 12));
  const CriticalPath path = critical_path(dag, measured, [](TaskId) { return false; });
  EXPECT_EQ(path.steps.front().from, 0);
  EXPECT_EQ(path.compute, 15);
}

/// compute 0 (0-10), transfers 1 and 2 of its result over one link (10-14 and 14-18, 2 ns latency), compute 3
/// (20-25).
std::vector<PlainTask> two_transfers() {
  return {{{0, 0}, 10, {{kCompute, 10}}, {}},
          {{0, 1}, 6, {{kWire, 4}}, {0}},
          {{0, 2}, 6, {{kWire, 4}}, {0}},
          {{0, 3}, 5, {{kCompute, 5}}, {2}}};
}

TEST(CriticalPath, StepsAndShares) {
  const Simulated run(two_transfers());
  const CriticalPath path =
      critical_path(run.dag, run.timeline, [](TaskId t) { return t.value == 1 || t.value == 2; });
  EXPECT_THAT(path.steps, ElementsAre(CriticalStep{TaskId(0), 0, 10, 0, nothing()},
                                      CriticalStep{TaskId(1), 10, 14, 4, input(0, 10)},
                                      CriticalStep{TaskId(2), 14, 20, 0, lane(kWire, 1, 10)},
                                      CriticalStep{TaskId(3), 20, 25, 0, input(2, 20)}));
  EXPECT_EQ(path.compute, 15);
  EXPECT_EQ(path.communication, 6);
  EXPECT_EQ(path.waiting, 4);
}

TEST(CriticalPath, WaitingForComputeIsCompute) {
  const Simulated run({{{0, 0}, 5, {{kCompute, 5}}, {}}, {{0, 1}, 4, {{kCompute, 4}}, {}}});
  const CriticalPath path = critical_path(run.dag, run.timeline, [](TaskId) { return false; });
  EXPECT_EQ(path.steps.size(), 2U);
  EXPECT_EQ(path.compute, 9);
  EXPECT_EQ(path.waiting, 0);
}

TEST(CriticalPath, OnlyTheTimeAfterItWasReadyIsWaiting) {
  // Transfer 2 is ready at 3, in the middle of transfer 0 (0-10).
  const Simulated run(
      {{{0, 0}, 10, {{kWire, 10}}, {}}, {{0, 1}, 3, {{kCompute, 3}}, {}}, {{0, 2}, 4, {{kWire, 4}}, {1}}});
  const CriticalPath path = critical_path(run.dag, run.timeline, [](TaskId t) { return t.value != 1; });
  EXPECT_EQ(path.communication, 7);
  EXPECT_EQ(path.waiting, 7);
  EXPECT_EQ(path.compute, 0);
}

TEST(CriticalPath, EmptyGraphHasNone) {
  const Simulated run({});
  EXPECT_EQ(critical_path(run.dag, run.timeline, [](TaskId) { return true; }), CriticalPath());
}

/// The explanation names something that really ended or was let go when the task started.
void expect_true(const Simulated& run, TaskId task, const Explanation& why) {
  const Nanoseconds start = run.timeline.start[task.index()];
  switch (why.cause) {
    case Cause::Nothing:
      EXPECT_EQ(start, 0);
      break;
    case Cause::Input:
      EXPECT_EQ(run.timeline.end[why.task.index()], start);
      EXPECT_EQ(why.ready, start);
      EXPECT_THAT(run.dag.successors(why.task), testing::Contains(task));
      break;
    case Cause::Lane:
      EXPECT_LT(why.ready, start);
      Nanoseconds released = -1;
      for (const LaneUse use : run.dag.lanes(why.task)) {
        if (use.lane == why.lane) released = run.timeline.start[why.task.index()] + use.hold;
      }
      EXPECT_EQ(released, start);
      break;
  }
}

TEST(CriticalPath, TilesTheMakespanOfRandomGraphs) {
  for_each_seed(2000, [](Rng& rng) {
    const Simulated run(random_tasks(rng));
    const Explainer explainer(run.dag, run.timeline);
    for (std::size_t i = 0; i < run.dag.num_tasks(); ++i)
      expect_true(run, TaskId(i), explainer.explain(TaskId(i)));
    const std::uint64_t classes = rng.next();
    const CriticalPath path = critical_path(run.dag, run.timeline,
                                            [&](TaskId t) { return (classes >> (t.index() % 64)) % 2 == 1; });
    Nanoseconds at = 0;
    for (const CriticalStep& step : path.steps) {
      EXPECT_EQ(step.from, at);
      EXPECT_EQ(step.from, run.timeline.start[step.task.index()]);
      EXPECT_GE(step.waiting, 0);
      EXPECT_LE(step.waiting, step.until - step.from);
      at = step.until;
    }
    EXPECT_EQ(at, run.timeline.makespan);
    EXPECT_GE(std::min({path.compute, path.communication, path.waiting}), 0);
    EXPECT_EQ(path.compute + path.communication + path.waiting, run.timeline.makespan);
  });
}

}  // namespace
}  // namespace pipesim
