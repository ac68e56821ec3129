#include "taskgraph/expansion/pair_gates.h"

#include <algorithm>
#include <utility>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

// Whether it contributes to this term, or to all terms.
bool gives_term(const PlanExpansion::Contribution& c, std::int32_t term) {
  return c.term < 0 || c.term == term;
}

}  // namespace

PairGates::PairGates(StrategyExpander& expander)
    : expander_(expander), contents_(expander.made().contents()), made_(expander.made()) {}

TaskId& PairGates::gate_of_first(std::int32_t stage, std::int32_t microbatch, DeviceId device) {
  const auto way = static_cast<std::size_t>(microbatch % contents_.ways());
  return gates_[(way * stages_ + static_cast<std::size_t>(stage)) *
                    contents_.costs().topology().num_devices() +
                device.index()];
}

TaskId PairGates::gate(std::int32_t stage, std::int32_t microbatch, DeviceId device) {
  return made_.in_microbatch(gate_of_first(stage, microbatch, device), microbatch);
}

void PairGates::add(const PipelineOrder& order, const BoundStrategy& strategy, std::int32_t microbatch) {
  const std::int32_t ways = contents_.ways();
  if (microbatch == 0) {
    any_ = order.has_pairs();
    if (!any_) return;
    stages_ = static_cast<std::size_t>(contents_.options().pipeline->num_stages());
    group_of_stage_.assign(static_cast<std::size_t>(ways) * stages_, -1);
    gates_.assign(group_of_stage_.size() * contents_.costs().topology().num_devices(), TaskId());
    crossings_.clear();
  }
  if (!any_) return;
  const std::vector<std::pair<std::int32_t, DeviceId>> places = expander_.places_of_stages(strategy);
  for (std::size_t n = 0; n < places.size(); ++n) {
    const auto [stage, device] = places[n];
    TaskLabel label;
    label.stage = TaskLabel::data_came_in;
    label.microbatch = expander_.labelled(microbatch);
    const TaskId made = expander_.add_gate(pair_gate_key(microbatch, n, device), device, label);
    if (microbatch >= ways) continue;
    gate_of_first(stage, microbatch, device) = made;
    group_of_stage_[static_cast<std::size_t>(microbatch) * stages_ + static_cast<std::size_t>(stage)] =
        order.group_of[device.index()];
  }
}

TaskId PairGates::enter(std::span<const PipelineStep> steps, DeviceId device, TaskId before) {
  const PipelineStep& step = steps.front();
  if (!any_ || step.kind != StepKind::Forward) return before;
  const TaskId entered = gate(step.stage, step.microbatch, device);
  if (before.valid()) expander_.dag().add_edge(before, entered);
  return entered;
}

PairGates::Paired& PairGates::paired(bool forward, std::int32_t stage, std::int32_t microbatch) {
  const std::size_t place = (forward ? 0 : stages_) + static_cast<std::size_t>(stage);
  return paired_[place * static_cast<std::size_t>(made_.microbatches()) +
                 static_cast<std::size_t>(microbatch)];
}

void PairGates::list_pairs(const PipelineOrder& order) {
  paired_.assign(2 * stages_ * static_cast<std::size_t>(made_.microbatches()), Paired());
  for (const std::vector<PipelineStep>& steps : order.steps) {
    std::int32_t barrier = 0;
    for (std::size_t n = 0; n < steps.size(); ++barrier) {
      const std::size_t length = steps_to_barrier(steps, n, order.together);
      for (std::size_t i = n; i < n + length && length > order.together; ++i) {
        paired(steps[i].kind == StepKind::Forward, steps[i].stage, steps[i].microbatch) = {
            barrier, steps[n].microbatch, steps[n].stage};
      }
      n += length;
    }
  }
}

std::int32_t PairGates::group_of(OperatorId op, std::int32_t microbatch) const {
  const auto way = static_cast<std::size_t>(microbatch % contents_.ways());
  return group_of_stage_[way * stages_ + static_cast<std::size_t>(contents_.stage_of(op))];
}

bool PairGates::is_between_stages(const Wiring& wiring) const {
  const bool moves = wiring.kind == TaskKind::ForwardTransfer || wiring.kind == TaskKind::BackwardTransfer;
  if (!moves || !wiring.first_task.valid()) return false;
  const std::int32_t reader = contents_.stage_of(wiring.destinations.front().op);
  return std::ranges::any_of(wiring.sources,
                             [&](UseRef source) { return contents_.stage_of(source.op) != reader; });
}

// What the devices of a stage exchange among themselves before they send is a part of their step.
void PairGates::list_sent(const Wiring& wiring, const PipelineOrder& order, std::int32_t to,
                          Crossing& crossing) const {
  const PlanExpansion& plan = wiring.plan->expansion;
  std::vector<bool> leaves(plan.tasks.size(), false);
  for (const PlanExpansion::Arrival a : plan.arrivals) {
    if (order.group_of[a.device.index()] == to) leaves[static_cast<std::size_t>(a.task)] = true;
  }
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    const std::int32_t from = group_of(wiring.sources[s].op, wiring.microbatch);
    if (from == to) continue;
    for (const PlanExpansion::Contribution& c : plan.contributions) {
      if (order.group_of[c.device.index()] == from && gives_term(c, wiring.source_terms[s]) &&
          leaves[static_cast<std::size_t>(c.task)])
        crossing.sent.push_back({c.task, c.device, contents_.stage_of(wiring.sources[s].op)});
    }
  }
}

// A gradient may have parts of the reader's own stage, which are made behind the gate.
void PairGates::list_arrived(const Wiring& wiring, const PipelineOrder& order, std::int32_t to,
                             Crossing& crossing) const {
  const PlanExpansion& plan = wiring.plan->expansion;
  std::vector<bool> own(plan.tasks.size(), false);
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    if (group_of(wiring.sources[s].op, wiring.microbatch) != to) continue;
    for (const PlanExpansion::Contribution& c : plan.contributions) {
      if (order.group_of[c.device.index()] == to && gives_term(c, wiring.source_terms[s]))
        own[static_cast<std::size_t>(c.task)] = true;
    }
  }
  for (const PlanExpansion::Wait w : plan.waits) {  // in the order of the tasks behind
    if (own[static_cast<std::size_t>(w.before)]) own[static_cast<std::size_t>(w.after)] = true;
  }
  for (const PlanExpansion::Arrival a : plan.arrivals) {
    if (order.group_of[a.device.index()] == to && !own[static_cast<std::size_t>(a.task)])
      crossing.arrived.push_back(a);
  }
}

// A crossing is the same in all microbatches of a way.
const PairGates::Crossing& PairGates::crossing(const Wiring& wiring, const PipelineOrder& order) {
  const auto [at, is_new] = crossings_.try_emplace(
      {wiring.microbatch % contents_.ways(), wiring.kind, wiring.tensor, wiring.ordinal});
  Crossing& crossing = at->second;
  if (!is_new) return crossing;
  const OperatorId reader = wiring.destinations.front().op;
  const std::int32_t to = group_of(reader, wiring.microbatch);
  crossing.reader_stage = contents_.stage_of(reader);
  list_sent(wiring, order, to, crossing);
  if (!crossing.sent.empty()) list_arrived(wiring, order, to, crossing);
  return crossing;
}

void PairGates::connect(const PipelineOrder& order, std::span<const TaskId> first_barriers) {
  if (!any_) return;
  list_pairs(order);
  TaskDag& dag = expander_.dag();
  for (const Wiring& wiring : made_.wirings()) {
    if (!is_between_stages(wiring)) continue;
    const bool forward = wiring.kind == TaskKind::ForwardTransfer;
    const Crossing& crossing = this->crossing(wiring, order);
    for (const Crossing::Sent& sent : crossing.sent) {
      const Paired& pair = paired(forward, sent.stage, wiring.microbatch);
      if (pair.barrier >= 0)
        dag.add_edge(task_at(first_barriers[sent.device.index()], pair.barrier),
                     task_at(wiring.first_task, sent.task));
    }
    const Paired& pair = paired(forward, crossing.reader_stage, wiring.microbatch);
    if (pair.barrier < 0) continue;
    for (const PlanExpansion::Arrival a : crossing.arrived)
      dag.add_edge(task_at(wiring.first_task, a.task),
                   gate(pair.forward_stage, pair.forward_microbatch, a.device));
  }
}

}  // namespace pipesim
