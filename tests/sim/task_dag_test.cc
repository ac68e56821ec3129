#include "sim/task_dag.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TaskKey key(std::uint64_t low) { return {0, low}; }

template <class Error>
std::string error_of(TaskDag& dag) {
  try {
    dag.finish();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

constexpr const char* kBug = " (this is a bug in pipesim, please report it)";

TEST(TaskDag, AnswersWhatWasAdded) {
  TaskDag dag;
  const TaskId a = dag.add_task(key(7), 10, LaneId(2));
  const TaskId b = dag.add_task(key(8), 20, LaneId(0), 15);
  const std::vector<LaneUse> both{{LaneId(1), 5}, {LaneId(4), 0}};
  const TaskId c = dag.add_task(key(9), 5, both);
  const TaskId d = dag.add_task(key(10), 0, LaneId());
  dag.finish();
  EXPECT_EQ(dag.num_tasks(), 4U);
  EXPECT_EQ(dag.num_lanes(), 5U);
  EXPECT_EQ(dag.duration(b), 20);
  EXPECT_EQ(dag.key(c), key(9));
  EXPECT_EQ(dag.keys()[d.index()], key(10));
  EXPECT_EQ(dag.lanes(a).size(), 1U);
  EXPECT_EQ(dag.lanes(a)[0], (LaneUse{LaneId(2), 10}));
  EXPECT_EQ(dag.lanes(b)[0], (LaneUse{LaneId(0), 15}));
  std::vector<LaneUse> seen;
  for (const LaneUse use : dag.lanes(c)) seen.push_back(use);
  EXPECT_EQ(seen, both);
  EXPECT_TRUE(dag.lanes(d).empty());
}

TEST(TaskDag, RepeatsTasksAndEdges) {
  const std::vector<LaneUse> both{{LaneId(1), 5}, {LaneId(4), 0}};
  TaskDag repeated, added;
  const auto add = [&](TaskDag& dag, std::uint64_t high) {
    const TaskId a = dag.add_task({high, 7}, 10, LaneId(2));
    const TaskId b = dag.add_task({high + 1, 8}, 5, both);
    const TaskId c = dag.add_task({high, 9}, 0, LaneId());
    dag.add_edge(a, c);
    dag.add_edge(b, a);
  };
  add(repeated, 3);
  repeated.repeat(2, 100);
  for (const std::uint64_t high : {3, 103, 203}) add(added, high);
  for (TaskDag* dag : {&repeated, &added}) {
    const TaskId last = dag->add_task({1000, 0}, 1, LaneId(5));
    dag->add_edge(TaskId(7), last);
    dag->finish();
  }
  ASSERT_EQ(repeated.num_tasks(), added.num_tasks());
  EXPECT_EQ(repeated.num_edges(), added.num_edges());
  EXPECT_EQ(repeated.num_lanes(), added.num_lanes());
  for (std::size_t i = 0; i < added.num_tasks(); ++i) {
    const TaskId t(i);
    EXPECT_EQ(repeated.key(t), added.key(t));
    EXPECT_EQ(repeated.duration(t), added.duration(t));
    EXPECT_EQ(repeated.num_predecessors(t), added.num_predecessors(t));
    EXPECT_TRUE(std::ranges::equal(repeated.successors(t), added.successors(t)));
    std::vector<LaneUse> lanes, expected;
    for (const LaneUse use : repeated.lanes(t)) lanes.push_back(use);
    for (const LaneUse use : added.lanes(t)) expected.push_back(use);
    EXPECT_EQ(lanes, expected);
  }
}

TEST(TaskDag, SortsEdgesIntoRowsInTheOrderTheyWereAdded) {
  TaskDag dag;
  for (std::uint64_t i = 0; i < 4; ++i) dag.add_task(key(i), 1, LaneId());
  dag.add_edge(TaskId(2), TaskId(1));
  dag.add_edge(TaskId(0), TaskId(3));
  dag.add_edge(TaskId(0), TaskId(1));
  dag.add_edge(TaskId(2), TaskId(3));
  dag.finish();
  EXPECT_EQ(dag.num_edges(), 4U);
  EXPECT_THAT(dag.successors(TaskId(0)), ElementsAre(TaskId(3), TaskId(1)));
  EXPECT_THAT(dag.successors(TaskId(1)), IsEmpty());
  EXPECT_THAT(dag.successors(TaskId(2)), ElementsAre(TaskId(1), TaskId(3)));
  EXPECT_THAT(dag.successors(TaskId(3)), IsEmpty());
  EXPECT_THAT(dag.num_predecessors(), ElementsAre(0, 2, 0, 2));
}

TEST(TaskDag, ClearForgetsEverything) {
  TaskDag dag;
  const std::vector<LaneUse> lanes{{LaneId(1), 5}, {LaneId(4), 0}};
  dag.add_task(key(0), 5, lanes);
  dag.add_task(key(1), 5, LaneId(9));
  dag.add_edge(TaskId(0), TaskId(1));
  dag.finish();
  dag.clear();
  dag.add_task(key(2), 3, LaneId(0));
  dag.finish();
  EXPECT_EQ(dag.num_tasks(), 1U);
  EXPECT_EQ(dag.num_edges(), 0U);
  EXPECT_EQ(dag.num_lanes(), 1U);
  EXPECT_EQ(dag.lanes(TaskId(0))[0], (LaneUse{LaneId(0), 3}));
  EXPECT_THAT(dag.successors(TaskId(0)), IsEmpty());
}

TEST(TaskDag, EmptyGraphFinishes) {
  TaskDag dag;
  dag.finish();
  EXPECT_EQ(dag.num_tasks(), 0U);
  EXPECT_EQ(dag.num_lanes(), 0U);
}

TEST(TaskDag, TakesThirtySixBytesATaskAndFourAnEdge) {
  TaskDag dag;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    dag.add_task(key(i), 10, LaneId(i % 8));
    if (i >= 2) dag.add_edge(TaskId(i - 1), TaskId(i)), dag.add_edge(TaskId(i - 2), TaskId(i));
  }
  EXPECT_EQ(dag.building_bytes(), (2 * 998) * 8U);
  dag.finish();
  EXPECT_LE(dag.bytes(), 1000 * 36 + dag.num_edges() * 4 + 16);
  EXPECT_EQ(dag.building_bytes(), 0U);
}

TEST(TaskDag, RefusesImpossibleTasks) {
  TaskDag negative;
  negative.add_task(key(0), 3, LaneId(0));
  negative.add_task(key(1), -5, LaneId(0));
  EXPECT_EQ(error_of<InternalError>(negative), std::string("task 1: duration -5 ns is negative") + kBug);
  TaskDag long_hold;
  long_hold.add_task(key(0), 3, LaneId(2), 4);
  EXPECT_EQ(error_of<InternalError>(long_hold),
            std::string("task 0: hold 4 ns of lane 2 exceeds the duration 3 ns") + kBug);
  TaskDag negative_hold;
  negative_hold.add_task(key(0), 3, LaneId(2), -1);
  EXPECT_EQ(error_of<InternalError>(negative_hold),
            std::string("task 0: hold -1 ns of lane 2 is negative") + kBug);
  TaskDag no_lane;
  const std::vector<LaneUse> uses{{LaneId(1), 1}, {LaneId(), 1}};
  no_lane.add_task(key(0), 3, uses);
  EXPECT_EQ(error_of<InternalError>(no_lane),
            std::string("task 0: hold 1 ns of lane -1 is of no lane") + kBug);
}

TEST(TaskDag, RefusesEdgesOfUnknownTasks) {
  for (const auto& [before, after] : {std::pair{0, 1}, {1, 0}, {-1, 0}, {0, -1}}) {
    TaskDag dag;
    dag.add_task(key(0), 3, LaneId(0));
    dag.add_edge(TaskId(before), TaskId(after));
    EXPECT_EQ(error_of<InternalError>(dag),
              fmt::format("edge {} -> {}: there are 1 tasks{}", before, after, kBug));
  }
}

TEST(TaskDag, RefusesTimeThatDoesNotFit) {
  constexpr Nanoseconds kMost = std::numeric_limits<Nanoseconds>::max();
  TaskDag fits;
  fits.add_task(key(0), kMost - 5, LaneId(0));
  fits.add_task(key(1), 5, LaneId(0));
  EXPECT_EQ(error_of<InputError>(fits), "no error");
  TaskDag overflows;
  overflows.add_task(key(0), kMost - 5, LaneId(0));
  overflows.add_task(key(1), 6, LaneId(0));
  EXPECT_EQ(error_of<InputError>(overflows),
            "task 1: the durations up to this one add up to more than 2^63 - 1 ns (292 years)");
}

TEST(TaskDag, FinishesOnce) {
  TaskDag dag;
  dag.add_task(key(0), 3, LaneId(0));
  dag.finish();
  EXPECT_EQ(error_of<InternalError>(dag), std::string("TaskDag: finish() was called twice") + kBug);
}

// finish() checks it in debug builds.
TEST(TaskDag, FindsRepeatedKeysAndLanes) {
  const auto error_of_check = [](TaskDag& dag) -> std::string {
    try {
      dag.finish();
      dag.check_unique();
    } catch (const InternalError& e) {
      return e.what();
    }
    return "no error";
  };
  TaskDag keys;
  keys.add_task({1, 16}, 3, LaneId(0));
  keys.add_task({1, 16}, 4, LaneId(0));
  EXPECT_EQ(error_of_check(keys), std::string("two tasks have the key 0x1 0x10") + kBug);
  TaskDag lanes;
  lanes.add_task(key(0), 3, std::vector<LaneUse>{{LaneId(1), 1}, {LaneId(1), 2}});
  EXPECT_EQ(error_of_check(lanes), std::string("task 0: uses lane 1 twice") + kBug);
}

}  // namespace
}  // namespace pipesim
