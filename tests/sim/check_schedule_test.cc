#include "sim/check_schedule.h"

#include <gmock/gmock.h>

#include "sim/simulate.h"

namespace pipesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr LaneId kLane(0), kLink(1);

/// compute 0 (lane 0, 0-10), transfer 1 (lane 1 10-14, then 2 ns latency), compute 2 (lane 0, 16-20) and 3
/// (lane 0, 10-13).
TaskDag small_graph() {
  TaskDag dag;
  dag.add_task({0, 0}, 10, kLane);
  dag.add_task({0, 1}, 6, kLink, 4);
  dag.add_task({0, 2}, 4, kLane);
  dag.add_task({0, 3}, 3, kLane);
  dag.add_edge(TaskId(0), TaskId(1));
  dag.add_edge(TaskId(1), TaskId(2));
  dag.add_edge(TaskId(0), TaskId(3));
  dag.finish();
  return dag;
}

class CheckSchedule : public testing::Test {
 protected:
  void move(std::size_t task, Nanoseconds start) {
    timeline_.start[task] = start;
    timeline_.end[task] = start + dag_.duration(TaskId(task));
  }
  TaskDag dag_ = small_graph();
  Timeline timeline_ = simulate(dag_);
};

TEST_F(CheckSchedule, PassesALegalSchedule) {
  EXPECT_EQ(timeline_, (Timeline{{0, 10, 16, 10}, {10, 16, 20, 13}, 20}));
  EXPECT_THAT(check_schedule(dag_, timeline_), IsEmpty());
}

TEST_F(CheckSchedule, PassesALaterStart) {
  move(3, 25);
  timeline_.makespan = 28;
  EXPECT_THAT(check_schedule(dag_, timeline_), IsEmpty());
}

TEST_F(CheckSchedule, FindsMissingTasks) {
  timeline_.start.pop_back();
  EXPECT_THAT(check_schedule(dag_, timeline_),
              ElementsAre("the graph has 4 tasks, the timeline 3 starts and 4 ends"));
}

TEST_F(CheckSchedule, FindsAStartBeforeZero) {
  move(0, -1);
  EXPECT_THAT(check_schedule(dag_, timeline_), ElementsAre("task 0 starts at -1 ns, before 0"));
}

TEST_F(CheckSchedule, FindsAWrongEnd) {
  timeline_.end[3] = 14;
  EXPECT_THAT(check_schedule(dag_, timeline_), ElementsAre("task 3 runs from 10 to 14 ns, but takes 3 ns"));
}

TEST_F(CheckSchedule, FindsAWrongMakespan) {
  timeline_.makespan = 21;
  EXPECT_THAT(check_schedule(dag_, timeline_),
              ElementsAre("the makespan is 21 ns, but the last task ends at 20 ns"));
}

TEST_F(CheckSchedule, FindsAnIgnoredEdge) {
  move(1, 9);
  EXPECT_THAT(check_schedule(dag_, timeline_),
              ElementsAre("task 1 starts at 9 ns, before its predecessor 0 ends at 10 ns"));
}

TEST_F(CheckSchedule, FindsOverlapsOnALane) {
  move(3, 14);
  EXPECT_THAT(check_schedule(dag_, timeline_),
              ElementsAre("lane 0 is held by task 3 from 14 to 17 ns and by task 2 from 16 to 20 ns"));
}

TEST_F(CheckSchedule, FindsAMakespanBelowTheLongestChain) {
  move(2, 15);
  timeline_.makespan = 19;
  EXPECT_THAT(check_schedule(dag_, timeline_),
              Contains("the chain of tasks up to 2 takes 20 ns, longer than the makespan of 19 ns"));
}

TEST_F(CheckSchedule, FindsAMakespanBelowTheBusiestLane) {
  timeline_.makespan = 16;
  EXPECT_THAT(check_schedule(dag_, timeline_),
              Contains("lane 0 is busy for 17 ns, longer than the makespan of 16 ns"));
}

TEST(CheckScheduleOfHolds, AnOverlapBehindAShortHoldIsFound) {
  TaskDag dag;
  for (std::uint64_t i = 0; i < 3; ++i) dag.add_task({0, i}, i == 0 ? 100 : 10, kLane);
  dag.finish();
  const Timeline t{{0, 20, 40}, {100, 30, 50}, 100};
  EXPECT_THAT(check_schedule(dag, t),
              ElementsAre("lane 0 is held by task 0 from 0 to 100 ns and by task 1 from 20 to 30 ns",
                          "lane 0 is held by task 0 from 0 to 100 ns and by task 2 from 40 to 50 ns",
                          "lane 0 is busy for 120 ns, longer than the makespan of 100 ns"));
  EXPECT_THAT(check_schedule(dag, t, 1), SizeIs(1));
}

TEST(CheckScheduleOfHolds, LatencyMayOverlapAndInstantsMayTouch) {
  TaskDag dag;
  dag.add_task({0, 0}, 10, kLink, 4);
  dag.add_task({0, 1}, 10, kLink, 4);
  dag.add_task({0, 2}, 0, kLink);
  dag.finish();
  EXPECT_THAT(check_schedule(dag, {{0, 4, 4}, {10, 14, 4}, 14}), IsEmpty());
  EXPECT_THAT(check_schedule(dag, {{0, 4, 3}, {10, 14, 3}, 14}),
              ElementsAre("lane 1 is held by task 0 from 0 to 4 ns and by task 2 from 3 to 3 ns"));
}

}  // namespace
}  // namespace pipesim
