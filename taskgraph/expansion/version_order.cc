// When weights change while microbatches are under way: what TaskGraphBuilder lets updates, and the steps
// that need them, wait for.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/task_graph_builder.h"

namespace pipesim {
namespace {

// Among the gates of a builder.
std::size_t gate_number(const TaskGraphBuilder& builder, const PipelineStep& step, DeviceId device) {
  const auto stages = static_cast<std::size_t>(builder.options().pipeline->num_stages());
  const std::size_t where =
      static_cast<std::size_t>(step.microbatch) * stages + static_cast<std::size_t>(step.stage);
  return 2 * (where * builder.costs().topology().num_devices() + device.index()) +
         (step.kind == StepKind::Forward ? 0 : 1);
}

// The tasks of a change that update weights of the stage on the device.
template <class Do>
void for_updates(const TaskGraphBuilder& builder, std::int32_t stage, DeviceId device, std::int32_t change,
                 Do visit) {
  for (std::size_t i = 0; i < builder.graph().operators().size(); ++i) {
    const OperatorId op(i);
    if (builder.stage_of(op) != stage) continue;
    const OperatorTasks& tasks = builder.tasks_of(op, change * builder.versions().every(stage));
    const auto at = std::ranges::find(tasks.update_devices, device);
    if (tasks.update.valid() && at != tasks.update_devices.end())
      visit(task_at(tasks.update, static_cast<std::int32_t>(at - tasks.update_devices.begin())));
  }
}

}  // namespace

TaskId TaskGraphBuilder::in_microbatch(TaskId of_first, std::int32_t microbatch) const {
  const auto block = static_cast<std::size_t>(microbatch / block_.microbatches),
             inside = static_cast<std::size_t>(microbatch % block_.microbatches);
  const std::size_t before = ways_ > 1 ? 0 : inside * tasks_of_one_microbatch_;
  return TaskId(block * block_.tasks + before + of_first.index());
}

// Two on each device of each stage: before it takes the microbatch forward, and before it takes it back.
void TaskGraphBuilder::add_version_gates(const BoundStrategy& strategy) {
  std::vector<std::pair<std::int32_t, DeviceId>> places;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    for (const DeviceId d : strategy[i]->config.devices) places.emplace_back(stage_of(OperatorId(i)), d);
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (std::size_t n = 0; n < places.size(); ++n) {
    for (const StepKind way : {StepKind::Forward, StepKind::Backward}) {
      const auto [stage, device] = places[n];
      const std::size_t number = 2 * n + (way == StepKind::Forward ? 0 : 1);
      const TaskId gate = out_->dag.add_task(version_gate_key(microbatch_, number, device), 0, LaneId());
      const std::size_t at = gate_number(*this, {way, microbatch_, stage}, device);
      if (version_gates_.size() <= at) version_gates_.resize(at + 1);
      version_gates_[at] = gate;
      gates_.push_back({device, gate});
      if (!labels_) continue;
      TaskLabel label;
      label.kind = TaskKind::Barrier;
      label.device = label.peer = device;
      label.stage = -1;
      label.microbatch = microbatch_;
      out_->labels.push_back(label);
    }
  }
}

// Forward needs its version of the weights; backward adds to gradients that the change before has read.
TaskId TaskGraphBuilder::wait_for_version(const PipelineStep& step, DeviceId device, TaskId before) {
  if (!versions_.several()) return before;
  const TaskId gate = version_gates_[gate_number(*this, step, device)];
  if (before.valid()) out_->dag.add_edge(before, gate);
  const bool forward = step.kind == StepKind::Forward;
  const std::int32_t awaited = (forward ? versions_.version(step.stage, step.microbatch)
                                        : versions_.change(step.stage, step.microbatch)) -
                               1;
  if (awaited >= 0) {
    for_updates(*this, step.stage, device, awaited, [&](TaskId update) { out_->dag.add_edge(update, gate); });
  }
  return gate;
}

// Like those after all steps, updates wait for the end of the step that made the device's last gradients.
void TaskGraphBuilder::update_between_steps(DeviceId device, std::span<const PipelineStep> steps,
                                            TaskId first_barrier) {
  const std::int32_t stages = options_.pipeline->num_stages();
  std::vector<std::int32_t> later(static_cast<std::size_t>(stages), INT32_MAX);  // by stage: change of a step
  for (std::size_t n = steps.size(); n-- > 0;) {
    const PipelineStep& step = steps[n];
    if (step.kind == StepKind::Forward) continue;
    const std::int32_t change = versions_.change(step.stage, step.microbatch);
    if (std::exchange(later[static_cast<std::size_t>(step.stage)], change) == change) continue;
    for_updates(*this, step.stage, device, change,
                [&](TaskId update) { out_->dag.add_edge(TaskId(first_barrier.index() + n), update); });
  }
}

}  // namespace pipesim
