#include "taskgraph/proofs/least_makespan.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/deadline.h"
#include "sim/bounds/chains.h"
#include "sim/bounds/lane_loads.h"

namespace pipesim {
namespace {

class MakespanBounder {
 public:
  explicit MakespanBounder(const FewMicrobatches& few)
      : few_(few), dag_(few.dag), timeline_(few.timeline), devices_(devices_unlike_others(few)) {}

  LeastMakespan bound() {
    if (few_.first_regular > 0 || few_.many <= few_.few) return {};
    const Nanoseconds shared = end_of_shared_part();
    LeastMakespan least;
    for (const std::size_t d : devices_) {
      const auto begun = static_cast<std::ptrdiff_t>(
          std::ranges::lower_bound(few_.barriers[d], shared, {},
                                   [&](TaskId b) { return timeline_.end[b.index()]; }) -
          few_.barriers[d].begin());
      const std::vector<Nanoseconds> times = least_times(d);
      Nanoseconds all = 0, rest = 0;
      for (std::ptrdiff_t i = 0; i < std::ssize(times); ++i) {
        all += times[static_cast<std::size_t>(i)];
        if (i > begun) rest += times[static_cast<std::size_t>(i)];
      }
      least.of_steps = std::max(least.of_steps, all);
      least.time = std::max(least.time, shared + rest);
    }
    least.time = std::max(least.time, least.of_steps);
    return least;
  }

 private:
  // Steps between two barriers, by kind and stage.
  using Kinds = std::vector<std::pair<StepKind, std::int32_t>>;

  [[nodiscard]] static std::span<const PipelineStep> steps_of(const PipelineOrder& order, std::size_t d) {
    return order.steps[static_cast<std::size_t>(order.group_of[d])];
  }
  [[nodiscard]] std::int32_t block_of(const PipelineStep& step) const {
    return step.microbatch / few_.of_block;
  }
  // By barrier, the steps before it.
  [[nodiscard]] static std::vector<std::span<const PipelineStep>> between_barriers(const PipelineOrder& order,
                                                                                   std::size_t d) {
    const std::span<const PipelineStep> steps = steps_of(order, d);
    const std::vector<std::size_t> begins = begins_between_barriers(steps, order.together);
    std::vector<std::span<const PipelineStep>> between;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      between.push_back(steps.subspan(begins[i], begins[i + 1] - begins[i]));
    return between;
  }
  static Kinds kinds_of(std::span<const PipelineStep> steps) {
    Kinds kinds;
    for (const PipelineStep& step : steps) kinds.emplace_back(step.kind, step.stage);
    return kinds;
  }

  // Returns how many barriers a device passes before the number of microbatches makes a difference.
  [[nodiscard]] std::size_t shared_barriers(std::size_t d) const {
    const auto few = between_barriers(few_.few_order, d), many = between_barriers(few_.many_order, d);
    std::size_t i = 0;
    while (i < few.size() && i < many.size() && i < few_.barriers[d].size() &&
           std::ranges::equal(few[i], many[i]) &&
           std::ranges::all_of(few[i], [&](const PipelineStep& s) { return block_of(s) + 1 < few_.few; }))
      ++i;
    return i;
  }

  // Returns the first moment when some device has passed its shared barriers.
  [[nodiscard]] Nanoseconds end_of_shared_part() const {
    Nanoseconds end = timeline_.makespan;
    for (const std::size_t d : devices_) {
      const std::size_t passed = shared_barriers(d);
      end = std::min(end, passed == 0 ? 0 : timeline_.end[few_.barriers[d][passed - 1].index()]);
    }
    return end;
  }

  // By barrier of the many: how long the steps before it take at least.
  std::vector<Nanoseconds> least_times(std::size_t d) {
    const auto few = between_barriers(few_.few_order, d);
    std::map<Kinds, Nanoseconds> least;  // the first steps of a device have no barrier before them
    for (std::size_t i = 1; i < std::min(few.size(), few_.barriers[d].size()); ++i) {
      const auto [at, fresh] = least.try_emplace(kinds_of(few[i]), 0);
      if (fresh) at->second = least_time(d, i, few[i]);
    }
    std::vector<Nanoseconds> times;
    for (const std::span<const PipelineStep> steps : between_barriers(few_.many_order, d)) {
      const auto known = least.find(kinds_of(steps));
      times.push_back(known == least.end() ? 0 : known->second);
    }
    return times;
  }

  // Returns the least time from the barrier before the steps to their own, by tasks on the paths between
  // them: the longest path, or the longest time that these hold a lane.
  Nanoseconds least_time(std::size_t d, std::size_t barrier, std::span<const PipelineStep> steps) {
    stop_if_late();
    const TaskId from = few_.barriers[d][barrier - 1], to = few_.barriers[d][barrier];
    held_.clear();
    Nanoseconds least = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto same = [&](const PipelineStep& s) { return block_of(s) == block_of(steps[i]); };
      if (std::ranges::any_of(steps.first(i), same)) continue;  // its tasks are counted
      find_window(from, to, static_cast<std::size_t>(block_of(steps[i])) * few_.tasks_of_one);
      least = std::max(least, longest_path(from, to));
      least = std::max(least, hold_lanes(to));
    }
    return least;
  }

  Nanoseconds longest_path(TaskId from, TaskId to) {
    for (const TaskId next : dag_.successors(from)) {
      if (is_inside(next)) longest_[range_.place(next)] = 0;
    }
    raise_heads(
        dag_, range_, window_, [&](TaskId, TaskId after) { return is_inside(after); }, longest_);
    Nanoseconds longest = 0;
    for (const TaskId task : window_) {
      const Nanoseconds head = longest_[range_.place(task)];
      if (head != kNotReached && std::ranges::find(dag_.successors(task), to) != dag_.successors(task).end())
        longest = std::max(longest, head + dag_.duration(task));
    }
    return longest;
  }

  // Adds what the tasks on these paths hold; returns the most that a lane of theirs is held.
  Nanoseconds hold_lanes(TaskId to) {
    Nanoseconds most = 0;
    for (auto task = window_.rbegin(); task != window_.rend(); ++task) {
      const std::size_t n = range_.place(*task);
      leads_there_[n] = std::ranges::any_of(dag_.successors(*task), [&](TaskId next) {
        return next == to || (is_inside(next) && leads_there_[range_.place(next)]);
      });
      if (longest_[n] == kNotReached || !leads_there_[n]) continue;
      for (const LaneUse use : dag_.lanes(*task)) most = std::max(most, held_.add(use));
    }
    return most;
  }

  // Whether it is a task of the microbatch and ran between the barriers.
  [[nodiscard]] bool is_inside(TaskId t) const {
    const bool of_it = t.index() >= range_.first && range_.place(t) < range_.count;
    return of_it && timeline_.start[t.index()] >= begin_ && timeline_.end[t.index()] <= end_;
  }

  // What ran between two barriers of the microbatch whose tasks begin with `first`, so that each task comes
  // before those that wait for it.
  void find_window(TaskId from, TaskId to, std::size_t first) {
    range_ = {first, few_.tasks_of_one};
    begin_ = timeline_.end[from.index()], end_ = timeline_.end[to.index()];
    longest_.assign(range_.count, kNotReached);
    leads_there_.assign(range_.count, false);
    order_tasks(
        dag_, range_, [&](TaskId task) { return is_inside(task); }, waits_for_, window_);
  }

  const FewMicrobatches& few_;
  const TaskDag& dag_;
  const Timeline& timeline_;
  std::vector<std::size_t> devices_;
  // The following describe one step: the tasks of its microbatch, when it may begin and must have ended,
  // and its tasks; by task of the microbatch how many it waits for, and the longest path to where it begins;
  // by lane how long it is held.
  TaskRange range_;
  Nanoseconds begin_ = 0, end_ = 0;
  std::vector<TaskId> window_;
  std::vector<std::int32_t> waits_for_;
  std::vector<Nanoseconds> longest_;
  std::vector<bool> leads_there_;
  LaneLoads held_;
};

}  // namespace

LeastMakespan least_makespan(const ExpandedStrategy& few, const Timeline& timeline) {
  return MakespanBounder(few_microbatches_of(few, timeline, few.contents().options().microbatches)).bound();
}

}  // namespace pipesim
