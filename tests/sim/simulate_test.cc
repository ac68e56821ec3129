#include "sim/simulate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/check_schedule.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The definition, word by word.
Timeline reference(const std::vector<PlainTask>& tasks) {
  const std::size_t n = tasks.size();
  Timeline t{std::vector<Nanoseconds>(n), std::vector<Nanoseconds>(n), 0};
  std::vector<bool> ended(n, false), queued(n, false);
  std::vector<Nanoseconds> lane_free(100, 0);
  std::set<std::tuple<Nanoseconds, TaskKey, std::size_t>> ready;
  const auto queue_the_ready = [&] {
    for (std::size_t i = 0; i < n; ++i) {
      Nanoseconds when = 0;
      bool all = !queued[i];
      for (const std::size_t p : tasks[i].predecessors) {
        all = all && ended[p];
        when = std::max(when, t.end[p]);
      }
      if (all) ready.emplace(when, tasks[i].key, i), queued[i] = true;
    }
  };
  for (queue_the_ready(); !ready.empty(); queue_the_ready()) {
    const auto [when, key, i] = *ready.begin();
    ready.erase(ready.begin());
    Nanoseconds start = when;
    for (const LaneUse& use : tasks[i].lanes) start = std::max(start, lane_free[use.lane.index()]);
    for (const LaneUse& use : tasks[i].lanes) lane_free[use.lane.index()] = start + use.hold;
    t.start[i] = start;
    t.end[i] = start + tasks[i].duration;
    t.makespan = std::max(t.makespan, t.end[i]);
    ended[i] = true;
  }
  return t;
}

Timeline simulate_tasks(const std::vector<PlainTask>& tasks) { return simulate(build(tasks)); }

// Where all that is popped by a moment is done, the rest goes on as in the whole.
TEST(Simulate, RestGoesOnAsTheWhole) {
  for_each_seed(500, [](Rng& rng) {
    const TaskDag dag = build(random_tasks(rng));
    const Timeline whole = simulate(dag);
    const auto cut = static_cast<Nanoseconds>(rng.below(static_cast<std::uint64_t>(whole.makespan) + 2));
    std::vector<Nanoseconds> ready(dag.num_tasks(), 0), lane_free(dag.num_lanes(), 0);
    for (std::size_t t = 0; t < ready.size(); ++t) {
      for (const TaskId next : dag.successors(TaskId(t)))
        ready[next.index()] = std::max(ready[next.index()], whole.end[t]);
    }
    Timeline rest = whole;
    std::vector<bool> done(dag.num_tasks());
    Nanoseconds makespan = 0;
    for (std::size_t t = 0; t < done.size(); ++t) {
      done[t] = ready[t] < cut;
      if (!done[t]) {
        makespan = std::max(makespan, whole.end[t]);
        rest.start[t] = rest.end[t] = -1;
        continue;
      }
      for (const LaneUse use : dag.lanes(TaskId(t)))
        lane_free[use.lane.index()] = std::max(lane_free[use.lane.index()], whole.start[t] + use.hold);
    }
    SimulationScratch scratch;
    simulate_rest(dag, done, lane_free, scratch, rest);
    EXPECT_EQ(rest.start, whole.start);
    EXPECT_EQ(rest.end, whole.end);
    EXPECT_EQ(rest.makespan, makespan);
  });
}

TEST(Simulate, RestMustNotComeBeforeWhatIsDone) {
  TaskDag dag;
  const TaskId a = dag.add_task({0, 0}, 10, LaneId(0)), b = dag.add_task({0, 1}, 10, LaneId(0));
  dag.add_edge(a, b);
  dag.finish();
  Timeline timeline = simulate(dag);
  SimulationScratch scratch;
  EXPECT_THROW(simulate_rest(dag, {false, true}, {}, scratch, timeline), InternalError);
}

TEST(Simulate, EmptyGraphTakesNoTime) {
  TaskDag dag;
  dag.finish();
  EXPECT_EQ(simulate(dag), Timeline());
}

TEST(Simulate, ALaneDoesOneTaskAtATimeInTheOrderOfKeys) {
  const LaneId lane(0);
  const Timeline t = simulate_tasks(
      {{{0, 2}, 5, {{lane, 5}}, {}}, {{0, 1}, 3, {{lane, 3}}, {}}, {{0, 3}, 1, {{lane, 1}}, {}}});
  EXPECT_THAT(t.start, ElementsAre(3, 0, 8));
  EXPECT_THAT(t.end, ElementsAre(8, 3, 9));
  EXPECT_EQ(t.makespan, 9);
}

TEST(Simulate, WhoIsReadyFirstGoesFirstWhateverTheKeys) {
  const LaneId a(0), b(1);
  // Task 1 is ready at 4, task 2 (with the smallest key) at 6; lane b is busy until 10.
  const Timeline t = simulate_tasks({{{0, 5}, 4, {{a, 4}}, {}},
                                     {{0, 9}, 2, {{b, 2}}, {0}},
                                     {{0, 1}, 2, {{b, 2}}, {3}},
                                     {{0, 6}, 6, {}, {}},
                                     {{0, 7}, 10, {{b, 10}}, {}}});
  EXPECT_THAT(t.start, ElementsAre(0, 10, 12, 0, 0));
}

TEST(Simulate, LatencyDelaysSuccessorsButNotTheLane) {
  const LaneId link(0);
  const Timeline t =
      simulate_tasks({{{0, 0}, 10, {{link, 4}}, {}}, {{0, 1}, 10, {{link, 4}}, {}}, {{0, 2}, 1, {}, {0}}});
  EXPECT_THAT(t.start, ElementsAre(0, 4, 10));
  EXPECT_EQ(t.makespan, 14);
}

TEST(Simulate, ATaskOfSeveralLanesWaitsForAllAndReleasesEachInTurn) {
  const LaneId a(0), b(1);
  const Timeline t = simulate_tasks({{{0, 0}, 5, {{a, 5}}, {}},
                                     {{0, 1}, 6, {{a, 2}, {b, 6}}, {}},
                                     {{0, 2}, 1, {{a, 1}}, {}},
                                     {{0, 3}, 1, {{b, 1}}, {}}});
  EXPECT_THAT(t.start, ElementsAre(0, 5, 7, 11)) << "task 3 must not overtake task 1 on lane b";
}

TEST(Simulate, ZeroTimeTasksRunAtOnce) {
  // 0 -> 1 -> 2 take no time; 2's successor has the smallest key but comes when 3 and 4 may have started.
  const LaneId lane(0);
  const Timeline t = simulate_tasks({{{0, 1}, 0, {}, {}},
                                     {{0, 5}, 0, {}, {0}},
                                     {{0, 0}, 7, {{lane, 7}}, {1}},
                                     {{0, 3}, 2, {{lane, 2}}, {}},
                                     {{0, 6}, 2, {{lane, 2}}, {}}});
  EXPECT_THAT(t.start, ElementsAre(0, 0, 2, 0, 9));
}

TEST(Simulate, RefusesCyclesAndNamesThem) {
  TaskDag dag;
  for (std::uint64_t i = 0; i < 7; ++i) dag.add_task({0, i}, 1, LaneId());
  dag.add_edge(TaskId(0), TaskId(1));
  dag.add_edge(TaskId(5), TaskId(3));
  dag.add_edge(TaskId(3), TaskId(6));
  dag.add_edge(TaskId(6), TaskId(5));
  dag.add_edge(TaskId(1), TaskId(5));
  dag.add_edge(TaskId(5), TaskId(2));
  dag.finish();
  EXPECT_THAT(find_cycle(dag), ElementsAre(TaskId(3), TaskId(6), TaskId(5)));
  try {
    simulate(dag);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "dependency cycle: 3 -> 6 -> 5 -> 3");
  }
}

TEST(Simulate, ATaskThatWaitsForItselfIsACycle) {
  TaskDag dag;
  dag.add_task({0, 0}, 1, LaneId());
  dag.add_edge(TaskId(0), TaskId(0));
  dag.finish();
  EXPECT_THAT(find_cycle(dag), ElementsAre(TaskId(0)));
  EXPECT_THROW(simulate(dag), InputError);
}

std::string task_name(TaskId task) { return "task" + std::to_string(task.value); }

TEST(Simulate, CyclesAreToldAsWhoWaitsForWhom) {
  const auto told = [](const std::vector<TaskId>& cycle) { return why_never(cycle, task_name); };
  EXPECT_EQ(told({TaskId(4)}), "task4 waits for task4");
  EXPECT_EQ(told({TaskId(3), TaskId(6), TaskId(5)}),
            "task3 waits for task5, which waits for task6, which waits for task3");
  std::vector<TaskId> many;
  for (std::size_t i = 0; i < 25; ++i) many.emplace_back(i);
  EXPECT_THAT(told(many),
              testing::EndsWith("which waits for task6, which waits for … (25 tasks), which waits "
                                "for task0"));
}

// Edges back into random graphs: the tasks of a cycle are a circle of edges, and simulate() throws the same.
TEST(Simulate, FindsCyclesHiddenInRandomGraphs) {
  int longer_than_two = 0;
  for_each_seed(1000, [&](Rng& rng) {
    std::vector<PlainTask> tasks = random_tasks(rng);
    // A way along edges, closed.
    std::vector<std::size_t> way{rng.below(tasks.size())};
    while (!tasks[way.back()].predecessors.empty() && rng.below(8) != 0) {
      const std::vector<std::size_t>& before = tasks[way.back()].predecessors;
      way.push_back(before[rng.below(before.size())]);
    }
    tasks[way.back()].predecessors.push_back(way.front());
    const TaskDag dag = build(tasks);
    const std::vector<TaskId> cycle = find_cycle(dag);
    ASSERT_THAT(cycle, testing::Not(IsEmpty()));
    EXPECT_EQ(cycle.front(), *std::ranges::min_element(cycle));
    EXPECT_EQ(std::set<TaskId>(cycle.begin(), cycle.end()).size(), cycle.size());
    for (std::size_t i = 0; i < cycle.size(); ++i)
      EXPECT_THAT(dag.successors(cycle[i]), testing::Contains(cycle[(i + 1) % cycle.size()]));
    if (cycle.size() > 2) ++longer_than_two;
    try {
      simulate(dag);
      FAIL() << "no error";
    } catch (const DependencyCycle& error) {
      EXPECT_THAT(error.tasks(), testing::ElementsAreArray(cycle));
    }
  });
  EXPECT_TRUE(longer_than_two > 0 || std::getenv("PIPESIM_TEST_SEED") != nullptr);
}

TEST(Simulate, LongCyclesAreShortened) {
  TaskDag dag;
  for (std::uint64_t i = 0; i < 25; ++i) {
    dag.add_task({0, i}, 1, LaneId());
    dag.add_edge(TaskId(i), TaskId((i + 1) % 25));
  }
  dag.finish();
  try {
    simulate(dag);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "dependency cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 12 -> 13 "
                 "-> 14 -> 15 "
                 "-> 16 -> 17 -> 18 -> 19 -> … (25 tasks) -> 0");
  }
}

TEST(Simulate, AgreesWithTheReferenceOnRandomGraphs) {
  for_each_seed(3000, [](Rng& rng) {
    const std::vector<PlainTask> tasks = random_tasks(rng);
    const TaskDag dag = build(tasks);
    const Timeline t = simulate(dag);
    EXPECT_EQ(t, reference(tasks));
    EXPECT_THAT(check_schedule(dag, t), IsEmpty());
    EXPECT_THAT(find_cycle(dag), IsEmpty());
  });
}

TEST(Simulate, CreationOrderDoesNotMatter) {
  for_each_seed(500, [](Rng& rng) {
    const std::vector<PlainTask> tasks = random_tasks(rng);
    const std::vector<std::size_t> order = shuffled(tasks.size(), rng);
    const Timeline straight = simulate(build(tasks)), mixed = simulate(build(tasks, order));
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(mixed.start[i], straight.start[order[i]]);
  });
}

TEST(Simulate, UsedScratchGivesTheSameResult) {
  SimulationScratch scratch;
  Timeline timeline;
  for_each_seed(500, [&](Rng& rng) {
    const TaskDag dag = build(random_tasks(rng));
    simulate(dag, scratch, timeline);
    EXPECT_EQ(timeline, simulate(dag));
  });
}

TEST(Simulate, ScratchIsUsableAfterACycle) {
  SimulationScratch scratch;
  Timeline timeline;
  TaskDag cyclic;
  cyclic.add_task({0, 0}, 1, LaneId(3));
  cyclic.add_task({0, 1}, 1, LaneId(3));
  cyclic.add_edge(TaskId(1), TaskId(1));
  cyclic.finish();
  EXPECT_THROW(simulate(cyclic, scratch, timeline), InputError);
  TaskDag dag;
  dag.add_task({0, 0}, 4, LaneId(3));
  dag.finish();
  simulate(dag, scratch, timeline);
  EXPECT_EQ(timeline, (Timeline{{0}, {4}, 4}));
}

TEST(Simulate, WarmScratchDoesNotGrow) {
  const std::vector<PlainTask> tasks = [] {
    Rng rng(5);
    return random_tasks(rng);
  }();
  const TaskDag dag = build(tasks);
  SimulationScratch scratch;
  Timeline timeline;
  simulate(dag, scratch, timeline);
  const std::size_t bytes = scratch.bytes();
  const Nanoseconds* start = timeline.start.data();
  simulate(dag, scratch, timeline);
  EXPECT_EQ(scratch.bytes(), bytes);
  EXPECT_EQ(timeline.start.data(), start);
}

}  // namespace
}  // namespace pipesim
