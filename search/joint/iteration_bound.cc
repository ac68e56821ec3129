#include "search/joint/iteration_bound.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "sim/base/deadline.h"
#include "sim/bounds/chains.h"

namespace pipesim {

Nanoseconds IterationBound::of_loads(const PlanContents& contents, const BoundStrategy& strategy) {
  loads_.clear();
  for (const BoundOperator* b : strategy) {
    for (const LaneUse use : b->loads) loads_.add(use);
  }
  return loads_.most() * contents.options().microbatches;
}

Nanoseconds IterationBound::of_chains(const ExpandedStrategy& unordered) {
  const TaskDag& dag = unordered.dag();
  stop_if_late();
  const Nanoseconds chain = longest_chain(dag);
  // Collectives of hundreds of devices hold so many lanes that sorting their uses takes longer than
  // simulating.
  constexpr std::size_t kMostUses = 4'000'000;
  std::size_t uses = 0;
  for (std::size_t i = 0; i < dag.num_tasks(); ++i) uses += dag.lanes(TaskId(i)).size();
  return uses <= kMostUses ? busiest_lane(unordered, chain) : chain;
}

// Sets heads and tails, too.
Nanoseconds IterationBound::longest_chain(const TaskDag& dag) {
  const TaskRange all{0, dag.num_tasks()};
  const auto every_edge = [](TaskId, TaskId) { return true; };
  order_tasks(dag, missing_, order_);
  head_.assign(all.count, 0);
  tail_.assign(all.count, 0);
  raise_heads(dag, all, order_, every_edge, head_);
  const auto from = [&](TaskId task) { return dag.duration(task) + tail_[task.index()]; };
  raise_tails(dag, all, order_, every_edge, from, tail_);
  Nanoseconds longest = 0;
  for (const TaskId task : order_) longest = std::max(longest, head_[task.index()] + from(task));
  return longest;
}

// The bound of each lane, or the bound so far. A lane's jobs end no later than all of them one after the
// other behind the last release, so that few lanes must be looked at.
Nanoseconds IterationBound::busiest_lane(const ExpandedStrategy& unordered, Nanoseconds bound) {
  const TaskDag& dag = unordered.dag();
  lanes_.assign(dag.num_lanes(), {});
  const auto visit = [&](auto use_job) {
    for (std::size_t i = 0; i < dag.num_tasks(); ++i) {
      const TaskId task(i);
      const bool each = i < unordered.tasks_of_one_microbatch();
      const std::int64_t times = each ? unordered.contents().options().microbatches : 1;
      for (const LaneUse use : dag.lanes(task))
        use_job(lanes_[use.lane.index()],
                LaneJob{head_[i], use.hold * times, dag.duration(task) - use.hold + tail_[i]});
    }
  };
  visit([](Lane& lane, const LaneJob& job) {
    ++lane.jobs;
    lane.work += job.work;
    lane.latest_release = std::max(lane.latest_release, job.release);
    lane.longest_rest = std::max(lane.longest_rest, job.rest);
  });
  std::size_t jobs = 0;
  for (Lane& lane : lanes_) lane.first = std::exchange(jobs, jobs + lane.jobs);
  jobs_.resize(jobs);
  for (Lane& lane : lanes_) lane.jobs = 0;
  visit([&](Lane& lane, const LaneJob& job) { jobs_[lane.first + lane.jobs++] = job; });
  heaviest_.resize(lanes_.size());
  std::iota(heaviest_.begin(), heaviest_.end(), std::size_t{0});
  std::ranges::sort(heaviest_, std::greater<>(), [&](std::size_t lane) { return lanes_[lane].work; });
  for (const std::size_t number : heaviest_) {
    const Lane& lane = lanes_[number];
    if (lane.latest_release + lane.work + lane.longest_rest <= bound) continue;
    bound = std::max(bound, one_machine_bound(std::span(jobs_).subspan(lane.first, lane.jobs), scratch_));
  }
  return bound;
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
