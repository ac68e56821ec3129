// When TaskGraphBuilder lets operators run again: not before backward comes to them, or memory would not
// fall.
#include <algorithm>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/task_graph_builder.h"

namespace pipesim {
namespace {

using Segment = Recomputation::Segment;

// What every device must have done before it runs a segment again: all of forward, then the backward of what
// stands behind the segment, and, as long as no schedule says when it is the microbatch's turn, the gradients
// that come in from there. Nothing of it waits for the segment: operators stand in topological order, and
// segments come in the order of their last readers. Stages do not wait for each other.
class AwaitedTasks {
 public:
  AwaitedTasks(const TaskGraphBuilder& builder, const BoundStrategy& strategy, std::int32_t microbatch)
      : builder_(builder),
        strategy_(strategy),
        microbatch_(microbatch),
        pipeline_(builder.options().pipeline),
        devices_(builder.costs().topology().num_devices()),
        stages_(static_cast<std::size_t>(pipeline_ ? pipeline_->num_stages() : 1)),
        awaited_(stages_ * devices_),
        behind_(stages_, strategy.size()),
        gradients_(strategy.size()) {
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const OperatorId op(i);
      await(op, builder.tasks_of(op, microbatch).forward, strategy[i]->forward);
    }
    if (pipeline_) return;
    const std::span<const Wiring> all = builder.wirings();  // those of the microbatch are the last ones
    for (auto w = all.rbegin(); w != all.rend() && w->microbatch == microbatch; ++w) {
      if (w->kind == TaskKind::BackwardTransfer)
        gradients_[w->destinations.front().op.index()].push_back(&*w);
    }
  }

  void add_backward_behind(const Segment& segment) {
    const std::size_t last = segment.last.index();
    for (std::size_t& i = behind_[stage_of(segment.last)]; i > last + 1;) {
      const OperatorId op(--i);
      if (stage_of(op) == stage_of(segment.last))
        await(op, builder_.tasks_of(op, microbatch_).backward_input, strategy_[i]->backward_input);
    }
    for (std::size_t i = segment.operators.front().index(); i <= last; ++i) {
      for (const Wiring* w : gradients_[i]) {
        if (!std::ranges::all_of(w->sources, [&](UseRef source) { return source.op > segment.last; }))
          continue;
        for (const PlanExpansion::Arrival a : w->plan->expansion.arrivals)
          awaited_[a.device.index()].push_back(task_at(w->first_task, a.task));
      }
    }
  }

  // Since the last time, by the device's operators of the segment's stage.
  std::vector<TaskId>& of(const Segment& segment, DeviceId device) {
    return awaited_[stage_of(segment.last) * devices_ + device.index()];
  }

 private:
  [[nodiscard]] std::size_t stage_of(OperatorId op) const {
    return pipeline_ ? static_cast<std::size_t>(pipeline_->stage_of[op.index()]) : 0;
  }

  void await(OperatorId op, TaskId first, const PassWork& work) {
    if (!first.valid()) return;
    const BoundOperator& bound = *strategy_[op.index()];
    const TaskId last = last_stage(first, bound, work);
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
      awaited_[stage_of(op) * devices_ + bound.config.devices[k].index()].push_back(
          task_at(last, static_cast<std::int32_t>(k)));
    }
  }

  const TaskGraphBuilder& builder_;
  const BoundStrategy& strategy_;
  std::int32_t microbatch_;
  const std::optional<Pipeline>& pipeline_;
  std::size_t devices_, stages_;
  std::vector<std::vector<TaskId>> awaited_;           // by stage and device
  std::vector<std::size_t> behind_;                    // by stage: from this operator on, backward is awaited
  std::vector<std::vector<const Wiring*>> gradients_;  // by operator: those of its outputs
};

}  // namespace

void TaskGraphBuilder::order_recompute(const BoundStrategy& strategy) {
  const std::span<const Segment> segments = recomputation_.segments();
  const std::size_t devices = costs_.topology().num_devices();
  AwaitedTasks awaited(*this, strategy, microbatch_);
  std::vector<TaskId> gates(
      devices * static_cast<std::size_t>(options_.pipeline ? options_.pipeline->num_stages() : 1));
  for (std::size_t s = 0; s < segments.size(); ++s) {
    awaited.add_backward_behind(segments[s]);
    const OperatorId last = segments[s].last;
    const auto stage =
        static_cast<std::size_t>(options_.pipeline ? options_.pipeline->stage_of[last.index()] : 0);
    for (const OperatorId op : segments[s].operators) {
      const std::vector<DeviceId>& of_shards = strategy[op.index()]->config.devices;
      for (std::size_t k = 0; k < of_shards.size(); ++k) {
        TaskId& gate = gates[stage * devices + of_shards[k].index()];
        std::vector<TaskId>& before = awaited.of(segments[s], of_shards[k]);
        if (!before.empty()) gate = add_gate(s, of_shards[k], gate, before);
        before.clear();
        out_->dag.add_edge(gate,
                           shard_task(tasks_of(op, microbatch_).recompute, *strategy[op.index()], 0, k));
      }
    }
  }
}

// One task instead of an edge from each that is awaited to each that may begin then.
TaskId TaskGraphBuilder::add_gate(std::size_t segment, DeviceId device, TaskId previous,
                                  std::span<const TaskId> awaited) {
  const TaskId gate = out_->dag.add_task(recompute_gate_key(microbatch_, segment, device), 0, LaneId());
  for (const TaskId task : awaited) out_->dag.add_edge(task, gate);
  if (previous.valid()) out_->dag.add_edge(previous, gate);
  gates_.push_back({device, gate});
  if (labels_) {
    TaskLabel label;
    label.kind = TaskKind::Barrier;
    label.op = recomputation_.segments()[segment].operators.front();
    label.device = label.peer = device;
    label.microbatch = labelled(microbatch_);
    out_->labels.push_back(label);
  }
  return gate;
}

}  // namespace pipesim
