#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/exhaustive/upstream_bounds.h"
#include "sim/bounds/chains.h"
#include "sim/bounds/one_machine.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Time of all stages of both backward passes of a shard.
Nanoseconds backward_time(const BoundOperator& bound, std::size_t shard);

/// The part of a task graph that is settled when only some operators have configs: their passes, the
/// transfers of activations between them, and the gradient transfers and weight updates all of whose sources
/// are among them. It is taken from the task graph of any completion, because none of these tasks and edges
/// depends on the other operators.
///
/// Its bound holds for the simulated time of every completion and does not depend on the schedule. Simulating
/// the part would prove nothing, since removing work from a list schedule may lengthen it (Graham, "Bounds on
/// multiprocessing timing anomalies", 1969). The bound consists of the longest paths through tasks, Jackson's
/// preemptive bound on every lane, and the time that operators upstream add before the first tasks, after the
/// last, and on the compute lanes.
class PartialGraph {
 public:
  /// `contents` must outlive it.
  explicit PartialGraph(const PlanContents& contents);

  /// `strategy` is any completion. Operators with `settled` keep their config, and so do all that read their
  /// outputs. `upstream`, if not null, belongs to the settled operators `boundary`; all producers of other
  /// settled operators must be settled.
  void build(const BoundStrategy& strategy, const std::vector<bool>& settled,
             const std::vector<OperatorId>& boundary, const UpstreamBound* upstream);

  /// A lower bound of every completion of the graph built last; `limit` when the bound is `limit` or more. If
  /// it is less, `by_origin` receives the same bound for the completions with each joint config of the block
  /// before the boundary. On entry its size is the number of these joint configs, 1 without such a block.
  Nanoseconds bound(Nanoseconds limit, std::vector<Nanoseconds>& by_origin);

  /// Computes the longest way from the start of a task to the start of all others; negative where none leads.
  void distances_from(TaskId task, std::vector<Nanoseconds>& out) const;
  /// A lower bound of the time from the start of the task to the end of the iteration.
  [[nodiscard]] Nanoseconds rest_from(TaskId task) const {
    return std::max(expanded_.dag().duration(task) + rest_[task.index()], least_from_[task.index()]);
  }
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op) const { return expanded_.tasks_of(op); }

 private:
  void keep(TaskId first, std::size_t count);
  void keep_passes(OperatorId op, const BoundOperator& bound);
  void keep_communication(const Wiring& wiring);
  void note_local(const Wiring& wiring, bool settled);
  [[nodiscard]] bool settles(const Wiring& wiring) const;
  /// The edge is there in every completion.
  [[nodiscard]] bool settled_edge(TaskId before, TaskId after) const;
  [[nodiscard]] bool all_settled(std::span<const UseRef> uses) const;
  [[nodiscard]] TaskRange all_tasks() const { return {0, expanded_.dag().num_tasks()}; }
  void seed(const UpstreamChoice& least);
  void sort_tasks();
  void find_heads();
  void find_rests();
  void collect_jobs();
  [[nodiscard]] Nanoseconds lanes_bound();
  void find_gradients();
  [[nodiscard]] Nanoseconds settled_bound();
  [[nodiscard]] Nanoseconds bound_with(const UpstreamChoice& choice, Nanoseconds limit) const;

  ExpandedStrategy expanded_;
  const OperatorGraph& model_;
  std::vector<std::vector<OperatorId>> update_needs_;  // per operator: users of the weights that it updates
  const BoundStrategy* strategy_ = nullptr;
  std::vector<bool> settled_;
  std::vector<OperatorId> boundary_;
  const UpstreamBound* upstream_ = nullptr;
  std::vector<std::uint8_t> kept_;   // by task
  std::vector<std::int32_t> owner_;  // by task: its operator, if it is a kept pass
  std::vector<std::uint8_t> open_;   // by task: waits for gradients that are not settled
  std::vector<std::pair<OperatorId, TaskId>>
      local_;                               // passes of operators that open tasks wait for in any case
  std::vector<TaskId> order_;               // kept tasks, predecessors first
  bool rooted_ = false;                     // all tasks come after the boundary's forward passes
  std::vector<std::int32_t> missing_;       // by task, scratch
  std::vector<Nanoseconds> head_, rest_;    // by task: longest way to its start, and from its end
  std::vector<Nanoseconds> least_from_;     // by task: see rest_from()
  std::vector<std::vector<LaneJob>> jobs_;  // by lane
  std::vector<LaneJob> scratch_;
  // By shard of the boundary: when its gradient is there, and when its lane is done with all that is settled
  // but the shard's own backward passes.
  std::vector<Nanoseconds> ready_, busy_;
  Nanoseconds longest_ = 0;
};

}  // namespace pipesim
