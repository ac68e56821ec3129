#include "search/joint/iteration_bound.h"

#include <algorithm>
#include <limits>

#include "sim/base/deadline.h"

namespace pipesim {

Nanoseconds IterationBound::of_loads(const PlanContents& contents, const BoundStrategy& strategy) {
  load_.clear();
  for (const BoundOperator* b : strategy) {
    for (const LaneUse use : b->loads) {
      if (use.lane.index() >= load_.size()) load_.resize(use.lane.index() + 1, 0);
      load_[use.lane.index()] += use.hold;
    }
  }
  return load_.empty() ? 0 : std::ranges::max(load_) * contents.options().microbatches;
}

Nanoseconds IterationBound::of_chains(const ExpandedStrategy& unordered) {
  const TaskDag& dag = unordered.dag();
  stop_if_late();
  find_heads_and_tails(dag);
  uses_.clear();
  Nanoseconds bound = 0;
  // Collectives of hundreds of devices hold so many lanes that sorting their uses takes longer than
  // simulating.
  constexpr std::size_t kMostUses = 4'000'000;
  std::size_t uses = 0;
  for (std::size_t i = 0; i < dag.num_tasks(); ++i) uses += dag.lanes(TaskId(i)).size();
  const bool follows_lanes = uses <= kMostUses;
  for (std::size_t i = 0; i < dag.num_tasks(); ++i) {
    const TaskId task(i);
    const Nanoseconds duration = dag.duration(task);
    const bool each = i < unordered.tasks_of_one_microbatch();
    bound = std::max(bound, head_[i] + duration + tail_[i]);
    if (!follows_lanes) continue;
    for (const LaneUse use : dag.lanes(task)) {
      const std::int64_t times = each ? unordered.contents().options().microbatches : 1;
      uses_.push_back({use.lane.value, use.hold * times, head_[i], duration - use.hold + tail_[i]});
    }
  }
  std::ranges::sort(uses_, [](const Use& a, const Use& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.after > b.after;
  });
  std::int32_t lane = -1;
  Nanoseconds held = 0, head = 0;
  for (const Use& use : uses_) {
    if (use.lane != lane) {
      lane = use.lane;
      held = 0;
      head = std::numeric_limits<Nanoseconds>::max();
    }
    held += use.hold;
    head = std::min(head, use.head);
    bound = std::max(bound, head + held + use.after);
  }
  return bound;
}

void IterationBound::find_heads_and_tails(const TaskDag& dag) {
  missing_.assign(dag.num_predecessors().begin(), dag.num_predecessors().end());
  head_.assign(dag.num_tasks(), 0);
  tail_.assign(dag.num_tasks(), 0);
  order_.clear();
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0) order_.emplace_back(i);
  }
  for (std::size_t n = 0; n < order_.size(); ++n) {
    const TaskId task = order_[n];
    const Nanoseconds end = head_[task.index()] + dag.duration(task);
    for (const TaskId next : dag.successors(task)) {
      head_[next.index()] = std::max(head_[next.index()], end);
      if (--missing_[next.index()] == 0) order_.push_back(next);
    }
  }
  for (std::size_t n = order_.size(); n-- > 0;) {
    const TaskId task = order_[n];
    for (const TaskId next : dag.successors(task))
      tail_[task.index()] = std::max(tail_[task.index()], dag.duration(next) + tail_[next.index()]);
  }
}

Bytes permanent_overflow(const PlanContents& contents, const BoundStrategy& strategy) {
  const Topology& topology = contents.costs().topology();
  const std::vector<WeightMemory> kept = contents.permanent_memory(strategy);
  Bytes over;
  for (std::size_t d = 0; d < kept.size(); ++d) {
    const Bytes capacity = topology.usable_memory(DeviceId(d));
    const Bytes all = kept[d].weights + kept[d].gradients + kept[d].optimizer_state;
    over += std::max(Bytes(0), all - capacity);
  }
  return over;
}

}  // namespace pipesim
