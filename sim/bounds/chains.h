#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/task_dag.h"

namespace pipesim {

/// The tasks of a graph from `first` on. Values by task of the range have their places behind `first`.
struct TaskRange {
  std::size_t first = 0, count = 0;
  [[nodiscard]] std::size_t place(TaskId task) const { return task.index() - first; }
};

/// A head or tail of a task that no chain leads to.
inline constexpr Nanoseconds kNotReached = -1;

/// Goes on with a list of tasks whose predecessors are in it: each task follows when it misses none.
template <class Counts>
void follow_tasks(const TaskDag& dag, TaskRange range, Counts counts, std::vector<std::int32_t>& missing,
                  std::vector<TaskId>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const TaskId after : dag.successors(order[i])) {
      if (counts(after) && --missing[range.place(after)] == 0) order.push_back(after);
    }
  }
}

/// Lists all tasks of the graph, predecessors first. A cycle is left out. `missing` is memory to work in.
/// Effort: tasks and edges.
inline void order_tasks(const TaskDag& dag, std::vector<std::int32_t>& missing, std::vector<TaskId>& order) {
  missing.assign(dag.num_predecessors().begin(), dag.num_predecessors().end());
  order.clear();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) order.emplace_back(i);
  }
  follow_tasks(
      dag, {0, dag.num_tasks()}, [](TaskId) { return true; }, missing, order);
}

/// The same of the tasks of a range for which `counts(task)` holds, as if there were no others. Returns how
/// many of the first in the list have no predecessor in it.
template <class Counts>
std::size_t order_tasks(const TaskDag& dag, TaskRange range, Counts counts,
                        std::vector<std::int32_t>& missing, std::vector<TaskId>& order) {
  missing.assign(range.count, 0);
  order.clear();
  for (std::size_t n = 0; n < range.count; ++n) {
    const TaskId task(range.first + n);
    if (!counts(task)) continue;
    order.push_back(task);
    for (const TaskId after : dag.successors(task)) {
      if (counts(after)) ++missing[range.place(after)];
    }
  }
  std::erase_if(order, [&](TaskId task) { return missing[range.place(task)] > 0; });
  const std::size_t roots = order.size();
  follow_tasks(dag, range, counts, missing, order);
  return roots;
}

/// Raises the head of each task to the length of the longest chain that leads to its start: that of a task
/// before it, from that one's own head on. `head`: by task of the range, what is known before; a task with
/// kNotReached leads nowhere. `counts(before, after)`: whether an edge is part of chains.
template <class Counts>
void raise_heads(const TaskDag& dag, TaskRange range, const std::vector<TaskId>& order, Counts counts,
                 std::vector<Nanoseconds>& head) {
  for (const TaskId task : order) {
    const Nanoseconds begin = head[range.place(task)];
    if (begin < 0) continue;
    const Nanoseconds end = begin + dag.duration(task);
    for (const TaskId after : dag.successors(task)) {
      if (!counts(task, after)) continue;
      Nanoseconds& at = head[range.place(after)];
      at = std::max(at, end);
    }
  }
}

/// Raises the tail of each task to the longest chain that follows its end. `from(after)`: the length of that
/// which begins with a task whose tail is known.
template <class Counts, class From>
void raise_tails(const TaskDag& dag, TaskRange range, const std::vector<TaskId>& order, Counts counts,
                 From from, std::vector<Nanoseconds>& tail) {
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    Nanoseconds& longest = tail[range.place(*task)];
    for (const TaskId after : dag.successors(*task)) {
      if (counts(*task, after)) longest = std::max(longest, from(after));
    }
  }
}

}  // namespace pipesim
