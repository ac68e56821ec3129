#pragma once

#include <numeric>
#include <vector>

#include "sim/base/rng.h"
#include "sim/task_dag.h"
#include "tests/seeds.h"

namespace pipesim {

/// A task as a test writes it down: independent of TaskDag.
struct PlainTask {
  TaskKey key;
  Nanoseconds duration = 0;
  std::vector<LaneUse> lanes;
  std::vector<std::size_t> predecessors;
};

/// Makes a small graph with hard cases: equal ready times, zero durations and holds, tasks of no lane or of
/// several, and early releases.
inline std::vector<PlainTask> random_tasks(Rng& rng) {
  const std::size_t n = 1 + rng.below(60), lanes = 1 + rng.below(6);
  const auto longest = static_cast<std::int64_t>(rng.below(2) == 0 ? 4 : 2000);
  std::vector<PlainTask> tasks(n);
  for (std::size_t i = 0; i < n; ++i) {
    PlainTask& t = tasks[i];
    t.key = {rng.below(3), (rng.next() << 8) + i};
    t.duration = rng.below(4) == 0 ? 0 : rng.between(0, longest);
    const std::uint64_t uses = rng.below(4);
    for (std::size_t l = 0; l < lanes && t.lanes.size() < uses; ++l) {
      if (rng.below(2) == 0) continue;
      t.lanes.push_back({LaneId(l), rng.below(2) == 0 ? t.duration : rng.between(0, t.duration)});
    }
    for (std::uint64_t p = rng.below(4); i > 0 && p > 0; --p) t.predecessors.push_back(rng.below(i));
  }
  return tasks;
}

/// Adds task order[i] as the i-th. Repeated predecessors stay: TaskDag allows parallel edges.
inline TaskDag build(const std::vector<PlainTask>& tasks, const std::vector<std::size_t>& order) {
  TaskDag dag;
  std::vector<TaskId> id(tasks.size());
  for (const std::size_t i : order) {
    const PlainTask& t = tasks[i];
    id[i] = t.lanes.size() == 1 ? dag.add_task(t.key, t.duration, t.lanes[0].lane, t.lanes[0].hold)
                                : dag.add_task(t.key, t.duration, t.lanes);
  }
  for (const std::size_t i : order) {
    for (const std::size_t p : tasks[i].predecessors) dag.add_edge(id[p], id[i]);
  }
  dag.finish();
  return dag;
}

inline std::vector<std::size_t> in_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

inline std::vector<std::size_t> shuffled(std::size_t n, Rng& rng) {
  std::vector<std::size_t> order = in_order(n);
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

inline TaskDag build(const std::vector<PlainTask>& tasks) { return build(tasks, in_order(tasks.size())); }

}  // namespace pipesim
