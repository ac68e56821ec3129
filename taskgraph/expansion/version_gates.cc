#include "taskgraph/expansion/version_gates.h"

#include <algorithm>
#include <utility>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {

VersionGates::VersionGates(StrategyExpander& expander)
    : expander_(expander), contents_(expander.made().contents()), made_(expander.made()) {}

std::size_t VersionGates::number(const PipelineStep& step, DeviceId device) const {
  const auto stages = static_cast<std::size_t>(contents_.options().pipeline->num_stages());
  const std::size_t where =
      static_cast<std::size_t>(step.microbatch) * stages + static_cast<std::size_t>(step.stage);
  return 2 * (where * contents_.costs().topology().num_devices() + device.index()) +
         (step.kind == StepKind::Forward ? 0 : 1);
}

// The tasks of a change that update weights of the stage on the device.
template <class Do>
void VersionGates::for_updates(std::int32_t stage, DeviceId device, std::int32_t change, Do visit) const {
  for (std::size_t i = 0; i < contents_.graph().operators().size(); ++i) {
    const OperatorId op(i);
    if (contents_.stage_of(op) != stage) continue;
    const OperatorTasks& tasks = made_.tasks_of(op, change * contents_.versions().every(stage));
    const auto at = std::ranges::find(tasks.update_devices(), device);
    if (tasks.update.valid() && at != tasks.update_devices().end())
      visit(task_at(tasks.update, static_cast<std::int32_t>(at - tasks.update_devices().begin())));
  }
}

void VersionGates::add(const BoundStrategy& strategy, std::int32_t microbatch) {
  const std::vector<std::pair<std::int32_t, DeviceId>> places = expander_.places_of_stages(strategy);
  for (std::size_t n = 0; n < places.size(); ++n) {
    for (const StepKind way : {StepKind::Forward, StepKind::Backward}) {
      const auto [stage, device] = places[n];
      const std::size_t key = 2 * n + (way == StepKind::Forward ? 0 : 1);
      TaskLabel label;
      label.stage = TaskLabel::weights_changed;
      label.microbatch = microbatch;
      const TaskId gate = expander_.add_gate(version_gate_key(microbatch, key, device), device, label);
      const std::size_t at = number({way, microbatch, stage}, device);
      if (gates_.size() <= at) gates_.resize(at + 1);
      gates_[at] = gate;
    }
  }
}

// Forward needs its version of the weights; backward adds to gradients that the change before has read.
TaskId VersionGates::enter(const PipelineStep& step, DeviceId device, TaskId before) {
  const WeightVersions& versions = contents_.versions();
  if (!versions.several()) return before;
  const TaskId gate = gates_[number(step, device)];
  if (before.valid()) expander_.dag().add_edge(before, gate);
  const std::int32_t awaited =
      (step.kind == StepKind::Forward ? versions.version(step.stage, step.microbatch)
                                      : versions.change(step.stage, step.microbatch)) -
      1;
  if (awaited >= 0) {
    for_updates(step.stage, device, awaited, [&](TaskId update) { expander_.dag().add_edge(update, gate); });
  }
  return gate;
}

void VersionGates::update_between_steps(DeviceId device, std::span<const PipelineStep> steps,
                                        TaskId first_barrier) {
  const std::int32_t stages = contents_.options().pipeline->num_stages();
  std::vector<std::int32_t> later(static_cast<std::size_t>(stages), INT32_MAX);  // by stage: change of a step
  for (std::size_t n = steps.size(); n-- > 0;) {
    const PipelineStep& step = steps[n];
    if (step.kind == StepKind::Forward) continue;
    const std::int32_t change = contents_.versions().change(step.stage, step.microbatch);
    if (std::exchange(later[static_cast<std::size_t>(step.stage)], change) == change) continue;
    for_updates(step.stage, device, change,
                [&](TaskId update) { expander_.dag().add_edge(TaskId(first_barrier.index() + n), update); });
  }
}

}  // namespace pipesim
