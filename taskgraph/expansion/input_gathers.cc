#include "taskgraph/expansion/input_gathers.h"

#include <algorithm>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {

InputGathers::InputGathers(StrategyExpander& expander)
    : expander_(expander), contents_(expander.made().contents()), made_(expander.made()) {
  if (contents_.options().gathered_inputs == GatheredInputs::Keep) return;
  for (std::size_t i = 0; i < contents_.graph().operators().size(); ++i) read_until_.emplace_back(i);
  for (const Recomputation::Segment& segment : contents_.recomputation().segments()) {
    for (const OperatorId op : segment.operators) read_until_[op.index()] = segment.last;
  }
}

void InputGathers::add(const BoundStrategy& strategy, std::int32_t microbatch) {
  if (read_until_.empty()) return;
  now_ = &strategy;
  microbatch_ = microbatch;
  // The microbatch's wirings are the last ones, and those for backward come behind.
  const std::size_t end = made_.wirings().size();
  std::size_t first = end;
  while (first > 0 && made_.wirings()[first - 1].microbatch == microbatch) --first;
  for (std::size_t w = first; w < end; ++w) {
    const Wiring& wiring = made_.wirings()[w];
    if (wiring.kind != TaskKind::ForwardTransfer || !gathers(wiring)) continue;
    std::vector<UseRef> readers = readers_of(wiring);
    const std::vector<std::pair<DeviceId, TaskId>> waits = awaited(wiring, readers);
    if (waits.empty()) continue;
    expander_.stops_after_forward(w);
    const Wiring& again = expander_.move_again(w, std::move(readers));
    for (const PlanExpansion::Arrival a : again.plan->expansion.arrivals) {
      const auto wait = std::ranges::lower_bound(waits, a.device, {}, &std::pair<DeviceId, TaskId>::first);
      if (wait != waits.end() && wait->first == a.device)
        expander_.dag().add_edge(wait->second, task_at(again.first_task, a.task));
    }
    connect_readers(again);
  }
}

bool InputGathers::gathers(const Wiring& wiring) {
  const UseRef source = wiring.sources.front();
  if (wiring.plan->tasks.empty() || contents_.recomputation().again(source.op)) return false;
  for (const UseRef use : wiring.destinations) {
    if (contents_.stage_of(use.op) != contents_.stage_of(source.op)) return false;
  }
  return gathers(data_layout(source, *now_), wiring.plan->target);
}

// Sums are as large as their addends.
bool InputGathers::gathers(LayoutId source, LayoutId target) {
  const auto [at, fresh] = gathers_.try_emplace({source, target}, false);
  if (!fresh) return at->second;
  const Layout &held = contents_.layouts()[source], &got = contents_.layouts()[target];
  at->second = held.num_addends() == 1 && std::ranges::all_of(got.entries(), [&](const LayoutEntry& e) {
                 const std::int64_t before = held.elements_on(e.device);
                 return before > 0 && before < got.elements_on(e.device);
               });
  return at->second;
}

// Returns the readers that run forward again, or read the input in backward.
std::vector<UseRef> InputGathers::readers_of(const Wiring& wiring) const {
  std::vector<UseRef> readers;
  for (const UseRef use : wiring.destinations) {
    const OperatorTasks& tasks = made_.tasks_of(use.op, microbatch_);
    const bool backward = tasks.backward_input.valid() || tasks.backward_weight.valid();
    const TensorUse& read = contents_.graph().op(use.op).uses[static_cast<std::size_t>(use.use)];
    if (tasks.recompute.valid() || (backward && read.read_in_backward())) readers.push_back(use);
  }
  return readers;
}

// The last task of the backward of the next operator behind `op` in its stage that the device has.
TaskId InputGathers::backward_behind(OperatorId op, DeviceId device) const {
  for (std::size_t i = op.index() + 1; i < now_->size(); ++i) {
    const OperatorId behind(i);
    const std::int32_t shard = (*now_)[i]->shard_of_device[device.index()];
    const TaskId first = made_.tasks_of(behind, microbatch_).backward_input;
    if (shard < 0 || !first.valid() || contents_.stage_of(behind) != contents_.stage_of(op)) continue;
    return task_at(last_stage(first, *(*now_)[i], (*now_)[i]->backward_input), shard);
  }
  return {};
}

// By device that receives, ascending: what has to be done before. Nothing where backward begins with the
// readers.
std::vector<std::pair<DeviceId, TaskId>> InputGathers::awaited(const Wiring& wiring,
                                                               const std::vector<UseRef>& readers) const {
  std::vector<std::pair<DeviceId, TaskId>> waits;
  if (readers.empty()) return waits;
  OperatorId last = readers.front().op;
  for (const UseRef use : readers) last = std::max(last, read_until_[use.op.index()]);
  for (const auto& [device, bytes] : wiring.plan->received) {
    const TaskId task = backward_behind(last, device);
    if (!task.valid()) return {};
    waits.emplace_back(device, task);
  }
  return waits;
}

void InputGathers::connect_readers(const Wiring& wiring) {
  for (const UseRef use : wiring.destinations) {
    const OperatorTasks& tasks = made_.tasks_of(use.op, microbatch_);
    const BoundOperator& bound = *(*now_)[use.op.index()];
    const auto connect = [&](TaskId first) {
      if (first.valid()) expander_.connect_readers(wiring, first, bound.shard_of_device);
    };
    if (tasks.recompute.valid()) {
      connect(tasks.recompute);  // for which backward waits
      continue;
    }
    if (!reads_for_weights_alone(bound, static_cast<std::size_t>(use.use))) connect(tasks.backward_input);
    connect(tasks.backward_weight);
  }
}

}  // namespace pipesim
