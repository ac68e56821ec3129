#include "sim/bounds/chains.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/bounds/lane_loads.h"
#include "sim/bounds/one_machine.h"
#include "sim/simulate.h"
#include "tests/sim/random_graph.h"

namespace pipesim {
namespace {

// The longest chain before a task, of tasks in the set alone: follows every way. kNotReached where a chain
// must begin at `from` and none does.
Nanoseconds longest_before(const std::vector<PlainTask>& tasks, const std::vector<bool>& in, std::size_t task,
                           std::size_t from) {
  if (task == from) return 0;
  Nanoseconds longest = from < tasks.size() ? kNotReached : 0;
  for (const std::size_t p : tasks[task].predecessors) {
    if (!in[p]) continue;
    const Nanoseconds before = longest_before(tasks, in, p, from);
    if (before != kNotReached) longest = std::max(longest, before + tasks[p].duration);
  }
  return longest;
}

// The longest chain after a task, in the same way.
Nanoseconds longest_after(const std::vector<PlainTask>& tasks, const std::vector<bool>& in,
                          std::size_t task) {
  Nanoseconds longest = 0;
  for (std::size_t s = 0; s < tasks.size(); ++s) {
    if (!in[s] || std::ranges::find(tasks[s].predecessors, task) == tasks[s].predecessors.end()) continue;
    longest = std::max(longest, tasks[s].duration + longest_after(tasks, in, s));
  }
  return longest;
}

std::vector<PlainTask> few_random_tasks(Rng& rng) {
  std::vector<PlainTask> tasks = random_tasks(rng);
  constexpr std::size_t kMost = 16;  // every way is followed
  if (tasks.size() > kMost) tasks.resize(kMost);
  return tasks;
}

TEST(Chains, AreTheLongestOfAllWays) {
  for_each_seed(200, [](Rng& rng) {
    const std::vector<PlainTask> tasks = few_random_tasks(rng);
    const TaskDag dag = build(tasks, in_order(tasks.size()));
    const TaskRange all{0, tasks.size()};
    std::vector<bool> in(tasks.size());
    const bool every = rng.below(2) == 0;
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = every || rng.below(3) > 0;
    const auto counts = [&](TaskId task) { return in[task.index()]; };
    const auto edge_counts = [&](TaskId before, TaskId after) { return counts(before) && counts(after); };
    std::vector<std::int32_t> missing;
    std::vector<TaskId> order, of_all;
    const std::size_t roots = order_tasks(dag, all, counts, missing, order);
    order_tasks(dag, missing, of_all);
    EXPECT_TRUE(!every || order == of_all);
    EXPECT_EQ(order.size(), static_cast<std::size_t>(std::ranges::count(in, true)));
    std::vector<std::size_t> place(tasks.size(), tasks.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i].index()] = i;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::vector<std::size_t>& before = tasks[order[i].index()].predecessors;
      for (const std::size_t p : before) EXPECT_TRUE(!in[p] || place[p] < i);
      EXPECT_EQ(i < roots, std::ranges::none_of(
                               before, [&](std::size_t p) { return in[p]; }));
    }
    std::vector<Nanoseconds> head(tasks.size(), 0), tail(tasks.size(), 0);
    raise_heads(dag, all, order, edge_counts, head);
    raise_tails(
        dag, all, order, edge_counts, [&](TaskId task) { return dag.duration(task) + tail[task.index()]; },
        tail);
    for (const TaskId task : order) {
      EXPECT_EQ(head[task.index()], longest_before(tasks, in, task.index(), tasks.size()));
      EXPECT_EQ(tail[task.index()], longest_after(tasks, in, task.index()));
    }
    if (order.empty()) return;
    const std::size_t from = order[rng.below(order.size())].index();
    std::vector<Nanoseconds> distance(tasks.size(), kNotReached);
    distance[from] = 0;
    raise_heads(dag, all, order, edge_counts, distance);
    for (const TaskId task : order)
      EXPECT_EQ(distance[task.index()], longest_before(tasks, in, task.index(), from));
  });
}

// A range of a graph is bounded as a graph of its tasks alone is.
TEST(Chains, OfARangeSeeNoOtherTasks) {
  for_each_seed(100, [](Rng& rng) {
    const std::vector<PlainTask> tasks = few_random_tasks(rng);
    const TaskDag dag = build(tasks, in_order(tasks.size()));
    TaskRange range;
    range.first = rng.below(tasks.size());
    range.count = rng.below(tasks.size() - range.first + 1);
    std::vector<bool> in(tasks.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = i >= range.first && i < range.first + range.count;
    const auto counts = [&](TaskId task) { return in[task.index()]; };
    std::vector<std::int32_t> missing;
    std::vector<TaskId> order;
    order_tasks(dag, range, counts, missing, order);
    ASSERT_EQ(order.size(), range.count);
    std::vector<Nanoseconds> head(range.count, 0);
    raise_heads(
        dag, range, order, [&](TaskId, TaskId after) { return counts(after); }, head);
    for (const TaskId task : order)
      EXPECT_EQ(head[range.place(task)], longest_before(tasks, in, task.index(), tasks.size()));
  });
}

// Chains, loads of lanes, and lanes as machines with heads and tails: each at least as close as the one
// before.
TEST(Chains, NoScheduleIsShorter) {
  int exact = 0, all = 0;
  for_each_seed(300, [&](Rng& rng) {
    const std::vector<PlainTask> tasks = random_tasks(rng);
    const TaskDag dag = build(tasks, in_order(tasks.size()));
    const TaskRange range{0, dag.num_tasks()};
    std::vector<std::int32_t> missing;
    std::vector<TaskId> order;
    order_tasks(dag, missing, order);
    std::vector<Nanoseconds> head(range.count, 0), tail(range.count, 0);
    const auto every_edge = [](TaskId, TaskId) { return true; };
    const auto from = [&](TaskId task) { return dag.duration(task) + tail[task.index()]; };
    raise_heads(dag, range, order, every_edge, head);
    raise_tails(dag, range, order, every_edge, from, tail);
    Nanoseconds chain = 0;
    LaneLoads loads;
    std::vector<std::vector<LaneJob>> jobs(dag.num_lanes());
    std::vector<Nanoseconds> held(dag.num_lanes(), 0);
    for (const TaskId task : order) {
      chain = std::max(chain, head[task.index()] + from(task));
      for (const LaneUse use : dag.lanes(task)) {
        held[use.lane.index()] += use.hold;
        EXPECT_EQ(loads.add(use), held[use.lane.index()]);
        jobs[use.lane.index()].push_back({head[task.index()], use.hold, from(task) - use.hold});
      }
    }
    EXPECT_EQ(loads.most(), held.empty() ? 0 : *std::ranges::max_element(held));
    const Nanoseconds makespan = simulate(dag).makespan;
    EXPECT_LE(chain, makespan);
    EXPECT_LE(loads.most(), makespan);
    Nanoseconds bound = chain;
    std::vector<LaneJob> scratch;
    for (std::vector<LaneJob>& lane : jobs) bound = std::max(bound, one_machine_bound(lane, scratch));
    EXPECT_LE(loads.most(), bound);
    EXPECT_LE(bound, makespan);
    exact += bound == makespan ? 1 : 0;
    ++all;
    loads.clear();
    EXPECT_EQ(loads.most(), 0);
  });
  EXPECT_TRUE(6 * exact > all || sanitized) << exact;
}

}  // namespace
}  // namespace pipesim
