#include "sim/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pipesim {
namespace {

struct Hold {
  Nanoseconds from;
  Nanoseconds until;
  std::size_t task;
  auto operator<=>(const Hold&) const = default;
};

class Checker {
 public:
  Checker(const TaskDag& dag, const Timeline& timeline, std::size_t most)
      : dag_(dag), timeline_(timeline), most_(most) {}

  std::vector<std::string> check() {
    if (!check_sizes()) return std::move(broken_);
    check_times();
    check_edges();
    check_lanes();
    check_longest_chain();
    return std::move(broken_);
  }

 private:
  template <class... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (broken_.size() < most_) broken_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool check_sizes() {
    const std::size_t n = dag_.num_tasks();
    if (timeline_.start.size() == n && timeline_.end.size() == n) return true;
    complain("the graph has {} tasks, the timeline {} starts and {} ends", n, timeline_.start.size(),
             timeline_.end.size());
    return false;
  }

  void check_times() {
    Nanoseconds last = 0;
    for (std::size_t i = 0; i < dag_.num_tasks(); ++i) {
      const Nanoseconds start = timeline_.start[i], end = timeline_.end[i], d = dag_.duration(TaskId(i));
      if (start < 0) complain("task {} starts at {} ns, before 0", i, start);
      if (end - start != d) complain("task {} runs from {} to {} ns, but takes {} ns", i, start, end, d);
      last = std::max(last, end);
    }
    if (timeline_.makespan != last) {
      complain("the makespan is {} ns, but the last task ends at {} ns", timeline_.makespan, last);
    }
  }

  void check_edges() {
    for (std::size_t i = 0; i < dag_.num_tasks(); ++i) {
      for (const TaskId next : dag_.successors(TaskId(i))) {
        const Nanoseconds start = timeline_.start[next.index()];
        if (start >= timeline_.end[i]) continue;
        complain("task {} starts at {} ns, before its predecessor {} ends at {} ns", next.value, start, i,
                 timeline_.end[i]);
      }
    }
  }

  void check_lanes() {
    std::vector<std::vector<Hold>> lanes(dag_.num_lanes());
    for (std::size_t i = 0; i < dag_.num_tasks(); ++i) {
      const Nanoseconds start = timeline_.start[i];
      for (const LaneUse use : dag_.lanes(TaskId(i)))
        lanes[use.lane.index()].push_back({start, start + use.hold, i});
    }
    for (std::size_t l = 0; l < lanes.size(); ++l) check_lane(l, lanes[l]);
  }

  void check_lane(std::size_t lane, std::vector<Hold>& holds) {
    std::ranges::sort(holds);
    Nanoseconds busy = 0;
    for (std::size_t h = 0, last = 0; h < holds.size(); ++h) {
      const Hold now = holds[h], before = holds[last];  // before: the one so far that keeps the lane longest
      busy += now.until - now.from;
      if (h > 0 && now.from < before.until) {
        complain("lane {} is held by task {} from {} to {} ns and by task {} from {} to {} ns", lane,
                 before.task, before.from, before.until, now.task, now.from, now.until);
      }
      if (now.until >= before.until) last = h;
    }
    if (busy > timeline_.makespan) {
      complain("lane {} is busy for {} ns, longer than the makespan of {} ns", lane, busy,
               timeline_.makespan);
    }
  }

  /// By task: the longest sum of durations along a path that ends with it, predecessors first.
  void check_longest_chain() {
    std::vector<Nanoseconds> chain(dag_.num_tasks(), 0);
    std::vector<std::int32_t> waits(dag_.num_tasks(), 0);
    std::vector<TaskId> order;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      for (const TaskId next : dag_.successors(TaskId(i))) ++waits[next.index()];
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i] == 0) order.emplace_back(i);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const TaskId task = order[i];
      chain[task.index()] += dag_.duration(task);
      for (const TaskId next : dag_.successors(task)) {
        chain[next.index()] = std::max(chain[next.index()], chain[task.index()]);
        if (--waits[next.index()] == 0) order.push_back(next);
      }
    }
    const auto longest = std::ranges::max_element(chain);
    if (longest == chain.end() || *longest <= timeline_.makespan) return;
    complain("the chain of tasks up to {} takes {} ns, longer than the makespan of {} ns",
             longest - chain.begin(), *longest, timeline_.makespan);
  }

  const TaskDag& dag_;
  const Timeline& timeline_;
  std::size_t most_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> check_schedule(const TaskDag& dag, const Timeline& timeline, std::size_t most) {
  return Checker(dag, timeline, most).check();
}

}  // namespace pipesim
