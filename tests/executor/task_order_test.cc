#include "executor/task_order.h"

#include <gmock/gmock.h>

#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

TaskDag dag_of(const std::vector<PlainTask>& tasks) {
  TaskDag dag;
  for (const PlainTask& t : tasks) dag.add_task(t.key, t.duration, t.lanes);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (const std::size_t p : tasks[t].predecessors) dag.add_edge(TaskId(p), TaskId(t));
  }
  dag.finish();
  return dag;
}

TEST(DispatchOrder, FollowsEdgesAndTheSimulatorsOrderOnEveryLane) {
  for_each_seed(300, [](Rng& rng) {
    const TaskDag dag = dag_of(random_tasks(rng));
    const Timeline timeline = simulate(dag);
    const std::vector<TaskId> order = dispatch_order(dag, timeline);
    ASSERT_EQ(order.size(), dag.num_tasks());
    std::vector<std::size_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i].index()] = i;
    std::vector<Nanoseconds> last(dag.num_lanes(), 0);
    for (const TaskId t : order) {
      for (const TaskId next : dag.successors(t)) EXPECT_LT(place[t.index()], place[next.index()]);
      for (const LaneUse& use : dag.lanes(t)) {
        EXPECT_GE(timeline.start[t.index()], last[use.lane.index()]) << "a lane is given out of order";
        last[use.lane.index()] = timeline.start[t.index()];
      }
    }
  });
}

TEST(Streams, AreAsManyAsTasksRunAtOnce) {
  const std::vector<StreamedTask> tasks{
      {TaskId(0), 0, 10}, {TaskId(1), 2, 4}, {TaskId(2), 4, 6}, {TaskId(3), 5, 9}};
  EXPECT_THAT(assign_streams(tasks, 8), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(assign_streams(tasks, 2), ElementsAre(0, 1, 1, 1));
}

TEST(ListOrder, FindsDevicesThatWaitForEachOther) {
  TaskDag dag;
  for (std::uint64_t t = 0; t < 3; ++t) dag.add_task({0, t}, 1, LaneId());
  dag.add_edge(TaskId(0), TaskId(1));
  dag.finish();
  ListOrder good(dag), crossed(dag), against_edge(dag);
  good.add_list({TaskId(0), TaskId(2)});
  good.add_list({TaskId(0), TaskId(2)});
  EXPECT_EQ(good.why_stuck(), std::nullopt);
  crossed.add_list({TaskId(0), TaskId(2)});
  crossed.add_list({TaskId(2), TaskId(0)});
  ASSERT_TRUE(crossed.why_stuck());
  EXPECT_THAT(*crossed.why_stuck(), ElementsAre(TaskId(0), TaskId(2)));
  against_edge.add_list({TaskId(1), TaskId(0)});
  EXPECT_TRUE(against_edge.why_stuck());
}

}  // namespace
}  // namespace pipesim
