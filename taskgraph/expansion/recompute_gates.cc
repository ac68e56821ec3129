#include "taskgraph/expansion/recompute_gates.h"

#include <algorithm>

#include "taskgraph/binding/used_devices.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

using Segment = Recomputation::Segment;

// What every device must have done before it runs a segment again: all of forward, then the backward of what
// stands behind the segment, and, as long as no schedule says when it is the microbatch's turn, the gradients
// that come in from there. Nothing of it waits for the segment: operators stand in topological order, and
// segments come in the order of their last readers. Stages do not wait for each other.
class AwaitedTasks {
 public:
  AwaitedTasks(const ExpandedStrategy& made, const BoundStrategy& strategy, const UsedDevices& devices,
               std::int32_t microbatch)
      : made_(made),
        strategy_(strategy),
        microbatch_(microbatch),
        pipeline_(made.contents().options().pipeline),
        devices_(devices),
        stages_(static_cast<std::size_t>(pipeline_ ? pipeline_->num_stages() : 1)),
        awaited_(stages_ * devices_.size()),
        behind_(stages_, strategy.size()),
        gradients_(strategy.size()) {
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const OperatorId op(i);
      await(op, made.tasks_of(op, microbatch).forward, strategy[i]->forward);
    }
    if (pipeline_) return;
    const std::span<const Wiring> all = made.wirings();  // those of the microbatch are the last ones
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
        await(op, made_.tasks_of(op, microbatch_).backward_input, strategy_[i]->backward_input);
    }
    for (std::size_t i = segment.operators.front().index(); i <= last; ++i) {
      for (const Wiring* w : gradients_[i]) {
        if (!std::ranges::all_of(w->sources, [&](UseRef source) { return source.op > segment.last; }))
          continue;
        for (const PlanExpansion::Arrival a : w->plan->expansion.arrivals)
          awaited_[devices_[a.device]].push_back(task_at(w->first_task, a.task));
      }
    }
  }

  // Returns tasks added since the caller took the last ones, by the device's operators of the segment's
  // stage.
  std::vector<TaskId>& of(const Segment& segment, DeviceId device) {
    return awaited_[stage_of(segment.last) * devices_.size() + devices_[device]];
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
      awaited_[stage_of(op) * devices_.size() + devices_[bound.config.devices[k]]].push_back(
          task_at(last, static_cast<std::int32_t>(k)));
    }
  }

  const ExpandedStrategy& made_;
  const BoundStrategy& strategy_;
  std::int32_t microbatch_;
  const std::optional<Pipeline>& pipeline_;
  const UsedDevices& devices_;
  std::size_t stages_;
  std::vector<std::vector<TaskId>> awaited_;           // by stage and device
  std::vector<std::size_t> behind_;                    // by stage: from this operator on, backward is awaited
  std::vector<std::vector<const Wiring*>> gradients_;  // by operator: those of its outputs
};

// Adds one task instead of edges from each awaited task to each task that may begin then.
TaskId add_gate(StrategyExpander& expander, std::int32_t microbatch, std::size_t segment, DeviceId device,
                TaskId previous, std::span<const TaskId> awaited) {
  TaskLabel label;
  label.op = expander.made().contents().recomputation().segments()[segment].operators.front();
  label.microbatch = expander.labelled(microbatch);
  const TaskId gate = expander.add_gate(recompute_gate_key(microbatch, segment, device), device, label);
  for (const TaskId task : awaited) expander.dag().add_edge(task, gate);
  if (previous.valid()) expander.dag().add_edge(previous, gate);
  return gate;
}

}  // namespace

void add_recompute_gates(StrategyExpander& expander, const BoundStrategy& strategy, std::int32_t microbatch) {
  const PlanContents& contents = expander.made().contents();
  const std::span<const Segment> segments = contents.recomputation().segments();
  const UsedDevices devices(strategy, contents.costs().topology().num_devices());
  const auto& pipeline = contents.options().pipeline;
  AwaitedTasks awaited(expander.made(), strategy, devices, microbatch);
  std::vector<TaskId> gates(devices.size() * static_cast<std::size_t>(pipeline ? pipeline->num_stages() : 1));
  for (std::size_t s = 0; s < segments.size(); ++s) {
    awaited.add_backward_behind(segments[s]);
    const auto stage = static_cast<std::size_t>(contents.stage_of(segments[s].last));
    for (const OperatorId op : segments[s].operators) {
      const BoundOperator& bound = *strategy[op.index()];
      for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
        const DeviceId device = bound.config.devices[k];
        TaskId& gate = gates[stage * devices.size() + devices[device]];
        std::vector<TaskId>& before = awaited.of(segments[s], device);
        if (!before.empty()) gate = add_gate(expander, microbatch, s, device, gate, before);
        before.clear();
        const TaskId again = expander.made().tasks_of(op, microbatch).recompute;
        expander.dag().add_edge(gate, shard_task(again, bound, 0, k));
      }
    }
  }
}

}  // namespace pipesim
