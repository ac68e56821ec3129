#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {
namespace {

// Sets times in the order of add_pass().
bool retime_pass(TaskDag& dag, TaskId first, const PassWork& work) {
  if (!first.valid()) return true;
  for (std::size_t i = 0; i < work.durations.size(); ++i)
    dag.set_duration(TaskId(first.index() + i), work.durations[i]);
  for (std::size_t e = 0; e < work.exchanges.size(); ++e) {
    const PricedTask& task = work.exchanges[e].task;
    if (!dag.set_times(TaskId(first.index() + work.durations.size() + e), task.duration, task.lanes))
      return false;
  }
  return true;
}

}  // namespace

bool ExpandedStrategy::retime() {
  const Runtime& runtime = contents_->costs().runtime();
  const bool follow_from_others =
      runtime.tensor_overlap || runtime.interference > 0 || runtime.dispatcher != Dispatcher::AsModel;
  if (follow_from_others || contents_->versions().several() || host_ != runtime.host) return false;
  if (!retime_passes() || !retime_transfers()) return false;
  retime_updates();
  graph_.dag.check_times();
  return true;
}

bool ExpandedStrategy::retime_passes() {
  for (std::int32_t m = 0; m < microbatches_; ++m) {
    const BoundStrategy& strategy = contents_->strategy_of(m, strategy_);
    for (std::size_t i = 0; i < operators_; ++i) {
      const BoundOperator& bound = *strategy[i];
      const OperatorTasks& tasks = tasks_of(OperatorId(i), m);
      if (!retime_pass(graph_.dag, tasks.forward, bound.forward) ||
          !retime_pass(graph_.dag, tasks.backward_input, bound.backward_input) ||
          !retime_pass(graph_.dag, tasks.backward_weight, bound.backward_weight) ||
          !retime_pass(graph_.dag, tasks.recompute, bound.forward))
        return false;
    }
  }
  return true;
}

bool ExpandedStrategy::retime_transfers() {
  for (const Wiring& wiring : wirings()) {
    const std::vector<PlanExpansion::Task>& tasks = wiring.plan->expansion.tasks;
    TransferLanes lanes({wiring.share, wiring.blocks, wiring.alone});
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (!graph_.dag.set_times(wiring.task(i), lanes.shortened(tasks[i].duration),
                                lanes.of(*wiring.plan, i)))
        return false;
    }
  }
  return true;
}

void ExpandedStrategy::retime_updates() {
  for (std::size_t i = 0; i < operators_; ++i) {
    const OperatorTasks& tasks = tasks_of(OperatorId(i));
    for (std::size_t k = 0; k < tasks.update_devices().size(); ++k)
      graph_.dag.set_duration(task_at(tasks.update, static_cast<std::int32_t>(k)),
                              tasks.updates->durations[k]);
  }
}

}  // namespace pipesim
