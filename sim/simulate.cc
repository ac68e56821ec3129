#include "sim/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"

namespace pipesim {
namespace {

/// When a task that is ready at `ready` starts; takes its lanes from there.
Nanoseconds start_on_lanes(const LaneUses& uses, Nanoseconds ready, std::vector<Nanoseconds>& lane_free) {
  if (uses.size() == 1) {
    const LaneUse use = uses[0];
    Nanoseconds& free = lane_free[use.lane.index()];
    const Nanoseconds start = std::max(ready, free);
    free = start + use.hold;
    return start;
  }
  Nanoseconds start = ready;
  for (const LaneUse use : uses) start = std::max(start, lane_free[use.lane.index()]);
  for (const LaneUse use : uses) lane_free[use.lane.index()] = start + use.hold;
  return start;
}

/// Fetches ahead what the engine will read of ready tasks, step by step, while other tasks become ready: the
/// task, then its row of successors, then what these miss. Graphs that fit into the cache gain nothing by it.
class Lookahead {
 public:
  Lookahead(const TaskDag& dag, const std::vector<std::int32_t>& missing, const Timeline& timeline)
      : dag_(dag), missing_(missing), timeline_(timeline), large_(dag.num_tasks() >= kLarge) {}

  void became_ready(TaskId task) {
    dag_.prefetch(task);
    if (!large_) return;
    last_[count_ % kLast] = task;
    __builtin_prefetch(&timeline_.end[task.index()], 1);
    if (const TaskId earlier = last_[(count_ - kRow) % kLast]; earlier.valid())
      dag_.prefetch_successors(earlier);
    if (const TaskId earliest = last_[(count_ - kMissing) % kLast]; earliest.valid()) {
      for (const TaskId next : dag_.successors(earliest)) {
        __builtin_prefetch(&missing_[next.index()], 1);
        __builtin_prefetch(&timeline_.start[next.index()], 1);
      }
    }
    ++count_;
  }

 private:
  static constexpr std::size_t kLarge = 10'000;  // tasks
  static constexpr std::size_t kLast = 16, kRow = 4, kMissing = 8;
  const TaskDag& dag_;
  const std::vector<std::int32_t>& missing_;
  const Timeline& timeline_;
  const bool large_;
  std::array<TaskId, kLast> last_{};
  std::size_t count_ = kLast;
};

constexpr std::size_t kShownOfCycle = 20;

std::string numbered(std::span<const TaskId> cycle) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(cycle.size(), kShownOfCycle); ++i)
    names.push_back(fmt::to_string(cycle[i].value));
  if (cycle.size() > kShownOfCycle) names.push_back(fmt::format("… ({} tasks)", cycle.size()));
  names.push_back(names.front());
  return fmt::format("{}", fmt::join(names, " -> "));
}

}  // namespace

std::size_t SimulationScratch::bytes() const {
  return missing_.capacity() * sizeof(std::int32_t) + lane_free_.capacity() * sizeof(Nanoseconds) +
         queue_.bytes();
}

void SimulationScratch::reset(const TaskDag& dag) {
  missing_.assign(dag.num_predecessors().begin(), dag.num_predecessors().end());
  lane_free_.assign(dag.num_lanes(), 0);
  queue_.reset(dag.keys());
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0) queue_.push(0, TaskId(i));
  }
}

// Returns the number of tasks that it started.
std::size_t SimulationScratch::run(const TaskDag& dag, Timeline& out) {
  Nanoseconds makespan = 0;
  std::size_t started = 0;
  Lookahead ahead(dag, missing_, out);
  constexpr std::size_t kBetweenLooks = 4096;
  for (; !queue_.empty(); ++started) {
    if (started % kBetweenLooks == 0) stop_if_late();
    const auto [ready, task] = queue_.pop();
    const Nanoseconds start = start_on_lanes(dag.lanes(task), ready, lane_free_);
    const Nanoseconds end = start + dag.duration(task);
    out.start[task.index()] = start;
    out.end[task.index()] = end;
    makespan = std::max(makespan, end);
    for (const TaskId next : dag.successors(task)) {
      Nanoseconds& next_ready = out.start[next.index()];
      next_ready = std::max(next_ready, end);
      if (--missing_[next.index()] != 0) continue;
      queue_.push(next_ready, next);
      ahead.became_ready(next);
    }
  }
  out.makespan = makespan;
  return started;
}

void simulate(const TaskDag& dag, SimulationScratch& scratch, Timeline& out) {
  const auto too_many = [&] {
    return out_of_memory(fmt::format("simulating {} tasks", dag.num_tasks()),
                         "Take fewer microbatches (--microbatches) or devices");
  };
  with_memory(too_many, [&] {
    scratch.reset(dag);
    out.start.assign(dag.num_tasks(), 0);  // until a task starts: when it is ready, as far as known
    out.end.resize(dag.num_tasks());
    if (scratch.run(dag, out) != dag.num_tasks()) throw DependencyCycle(find_cycle(dag));
  });
}

void simulate_rest(const TaskDag& dag, const std::vector<bool>& done, std::span<const Nanoseconds> lane_free,
                   SimulationScratch& scratch, Timeline& out) {
  auto& [missing, free, queue] = scratch;
  missing.assign(dag.num_predecessors().begin(), dag.num_predecessors().end());
  free.assign(lane_free.begin(), lane_free.end());
  free.resize(std::max(lane_free.size(), dag.num_lanes()), 0);
  queue.reset(dag.keys());
  for (std::size_t t = 0; t < done.size(); ++t) {
    if (!done[t]) out.start[t] = 0;
  }
  std::size_t left = 0;
  for (std::size_t t = 0; t < done.size(); ++t) {
    left += done[t] ? 0 : 1;
    for (const TaskId next : dag.successors(TaskId(t))) {
      if (!done[t] && done[next.index()])
        throw InternalError(fmt::format("task {} is done before task {}", next.value, t));
      if (!done[t] || done[next.index()]) continue;
      out.start[next.index()] = std::max(out.start[next.index()], out.end[t]);
      --missing[next.index()];
    }
  }
  for (std::size_t t = 0; t < done.size(); ++t) {
    if (!done[t] && missing[t] == 0) queue.push(out.start[t], TaskId(t));
  }
  if (scratch.run(dag, out) != left) throw DependencyCycle(find_cycle(dag));
}

Timeline simulate(const TaskDag& dag) {
  SimulationScratch scratch;
  Timeline timeline;
  simulate(dag, scratch, timeline);
  return timeline;
}

namespace {

/// For each task that can never start, one task that it waits for and that can't start either.
std::vector<TaskId> find_blockers(const TaskDag& dag) {
  std::vector<std::int32_t> missing(dag.num_predecessors().begin(), dag.num_predecessors().end());
  std::vector<TaskId> open;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) open.emplace_back(i);
  }
  while (!open.empty()) {
    const TaskId task = open.back();
    open.pop_back();
    for (const TaskId next : dag.successors(task)) {
      if (--missing[next.index()] == 0) open.push_back(next);
    }
  }
  std::vector<TaskId> blocker(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) continue;
    for (const TaskId next : dag.successors(TaskId(i))) blocker[next.index()] = TaskId(i);
  }
  return blocker;
}

/// The fewest tasks through which edges lead from a task of a cycle back to it, itself first.
std::vector<TaskId> shortest_way_back(const TaskDag& dag, TaskId task) {
  std::vector<TaskId> reached_from(dag.num_tasks()), queue{task};
  for (std::size_t i = 0; !reached_from[task.index()].valid(); ++i) {
    for (const TaskId next : dag.successors(queue[i])) {
      if (reached_from[next.index()].valid()) continue;
      reached_from[next.index()] = queue[i];
      queue.push_back(next);
    }
  }
  std::vector<TaskId> way{task};
  for (TaskId t = reached_from[task.index()]; t != task; t = reached_from[t.index()]) way.push_back(t);
  std::ranges::reverse(way.begin() + 1, way.end());
  return way;
}

}  // namespace

std::vector<TaskId> find_cycle(const TaskDag& dag) {
  const std::vector<TaskId> blocker = find_blockers(dag);
  const auto blocked = std::ranges::find_if(blocker, [](TaskId b) { return b.valid(); });
  if (blocked == blocker.end()) return {};
  // Walking back can't end, so it comes back to where it has been.
  TaskId task = *blocked;
  for (std::size_t i = 0; i < blocker.size(); ++i) task = blocker[task.index()];
  std::vector<TaskId> cycle = shortest_way_back(dag, task);
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

DependencyCycle::DependencyCycle(std::vector<TaskId> tasks)
    : InputError("dependency cycle: " + numbered(tasks)), tasks_(std::move(tasks)) {}

std::string why_never(std::span<const TaskId> cycle, const std::function<std::string(TaskId)>& name) {
  std::string text = name(cycle.front());
  bool first = true;
  const auto add = [&](const std::string& next) {
    text += (first ? " waits for " : ", which waits for ") + next;
    first = false;
  };
  // Names go against the order of edges, since an edge leads to the task that waits.
  for (std::size_t i = cycle.size() - 1; i > 0; --i) {
    if (cycle.size() - i >= kShownOfCycle) {
      add(fmt::format("… ({} tasks)", cycle.size()));
      break;
    }
    add(name(cycle[i]));
  }
  add(name(cycle.front()));
  return text;
}

}  // namespace pipesim
