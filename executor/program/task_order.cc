#include "executor/program/task_order.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "sim/simulate.h"

namespace pipesim {

std::vector<TaskId> dispatch_order(const TaskDag& dag, const Timeline& simulated) {
  using Ready = std::tuple<Nanoseconds, Nanoseconds, TaskKey, TaskId>;  // start, ready, key
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue;
  std::vector<std::int32_t> missing(dag.num_predecessors().begin(), dag.num_predecessors().end());
  std::vector<Nanoseconds> ready(dag.num_tasks(), 0);
  std::vector<TaskId> order;
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    if (missing[t] == 0) queue.emplace(simulated.start[t], 0, dag.key(TaskId(t)), TaskId(t));
  }
  while (!queue.empty()) {
    const TaskId task = std::get<TaskId>(queue.top());
    queue.pop();
    order.push_back(task);
    for (const TaskId next : dag.successors(task)) {
      ready[next.index()] = std::max(ready[next.index()], simulated.end[task.index()]);
      if (--missing[next.index()] == 0)
        queue.emplace(simulated.start[next.index()], ready[next.index()], dag.key(next), next);
    }
  }
  return order;
}

std::vector<std::int32_t> assign_streams(std::span<const StreamedTask> tasks, std::int32_t most) {
  std::vector<Nanoseconds> busy_until;
  std::vector<std::int32_t> streams;
  for (const StreamedTask& t : tasks) {
    const auto idle = std::find_if(busy_until.begin(), busy_until.end(),
                                   [&](Nanoseconds until) { return until <= t.start; });
    std::size_t stream = static_cast<std::size_t>(idle - busy_until.begin());
    if (idle == busy_until.end()) {
      if (static_cast<std::int32_t>(busy_until.size()) < most) {
        busy_until.push_back(0);
      } else {
        stream = static_cast<std::size_t>(std::min_element(busy_until.begin(), busy_until.end()) -
                                          busy_until.begin());
      }
    }
    busy_until[stream] = std::max(busy_until[stream], t.end);
    streams.push_back(static_cast<std::int32_t>(stream));
  }
  return streams;
}

// The lists add edges between neighbours; no circle in the graph of both means that somebody can always go
// on.
std::optional<std::vector<TaskId>> ListOrder::why_stuck() const {
  TaskDag joint;
  for (std::size_t t = 0; t < dag_.num_tasks(); ++t) joint.add_task({0, t}, 0, LaneId());
  for (std::size_t t = 0; t < dag_.num_tasks(); ++t) {
    for (const TaskId next : dag_.successors(TaskId(t))) joint.add_edge(TaskId(t), next);
  }
  for (const std::vector<TaskId>& list : lists_) {
    for (std::size_t i = 1; i < list.size(); ++i) joint.add_edge(list[i - 1], list[i]);
  }
  joint.finish();
  std::vector<TaskId> cycle = find_cycle(joint);
  if (cycle.empty()) return std::nullopt;
  return cycle;
}

}  // namespace pipesim
