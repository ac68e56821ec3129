#include "taskgraph/proofs/pipeline_drain.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "sim/base/errors.h"
#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

// Where gradients of weights are made by the pass that makes those of inputs, too.
std::vector<bool> stages_without_weight_pass(const ExpandedStrategy& expanded, std::size_t stages) {
  const PlanContents& contents = expanded.contents();
  std::vector<bool> without(stages, false);
  for (std::size_t t = 0; t < contents.graph().tensors().size(); ++t) {
    if (contents.graph().tensors()[t].kind != TensorKind::Weight) continue;
    for (const UseRef maker : contents.backward().gradient_makers(TensorId(t))) {
      if (!expanded.tasks_of(maker.op).backward_weight.valid())
        without[static_cast<std::size_t>(contents.stage_of(maker.op))] = true;
    }
  }
  return without;
}

bool makes_weight_gradients(StepKind kind, bool by_inputs) {
  return kind == StepKind::Backward ||
         kind == (by_inputs ? StepKind::BackwardInput : StepKind::BackwardWeight);
}

// When each task became ready.
std::vector<Nanoseconds> ready_times(const TaskDag& dag, const Timeline& timeline) {
  std::vector<Nanoseconds> ready(dag.num_tasks(), 0);
  for (std::size_t t = 0; t < ready.size(); ++t) {
    for (const TaskId next : dag.successors(TaskId(t)))
      ready[next.index()] = std::max(ready[next.index()], timeline.end[t]);
  }
  return ready;
}

std::size_t number_of(StepKind kind) {
  return kind == StepKind::Forward ? 0 : kind == StepKind::BackwardWeight ? 2 : 1;
}

// By group: the number of the first step after which all gradients of one of its stages are there.
std::vector<std::size_t> first_last_steps(const ExpandedStrategy& expanded, const PipelineOrder& order) {
  const auto stages = static_cast<std::size_t>(expanded.contents().options().pipeline->num_stages());
  const std::vector<bool> by_inputs = stages_without_weight_pass(expanded, stages);
  std::vector<std::size_t> first;
  for (const std::vector<PipelineStep>& steps : order.steps) {
    // A stage that has both kinds waits for either.
    std::vector<std::size_t> inputs(stages, steps.size()), weights(stages, steps.size());
    for (std::size_t n = 0; n < steps.size(); ++n) {
      const auto stage = static_cast<std::size_t>(steps[n].stage);
      if (by_inputs[stage] && makes_weight_gradients(steps[n].kind, true)) inputs[stage] = n;
      if (makes_weight_gradients(steps[n].kind, false)) weights[stage] = n;
    }
    first.push_back(std::min(std::ranges::min(inputs), std::ranges::min(weights)));
  }
  return first;
}

}  // namespace

LastSteps::LastSteps(PipelineOrder all, std::vector<std::size_t> from)
    : first(std::move(from)), order(std::move(all)) {
  std::int32_t end = 0;
  first_microbatch = std::numeric_limits<std::int32_t>::max();
  for (std::size_t g = 0; g < first.size(); ++g) {
    std::vector<PipelineStep>& steps = order.steps[g];
    steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(first[g]));
    for (const PipelineStep& step : steps) {
      first_microbatch = std::min(first_microbatch, step.microbatch);
      end = std::max(end, step.microbatch + 1);
    }
  }
  microbatches = std::max(0, end - first_microbatch);
  for (std::vector<PipelineStep>& steps : order.steps) {
    for (PipelineStep& step : steps) step.microbatch -= first_microbatch;
  }
}

DrainSimulation::DrainSimulation(const ExpandedStrategy& steps, const Folding& of_steps,
                                 const Folding& of_all, const Timeline& timeline)
    : contents_(steps.contents()),
      steps_(steps),
      of_steps_(of_steps),
      of_all_(of_all),
      dag_(steps.dag()),
      timeline_(timeline),
      order_(contents_.order_of(of_steps.strategy(), steps.microbatches())),
      of_one_(steps.tasks_of_one_microbatch()),
      barriers_(order_.group_of.size()) {
  // Those that stand for others in of_all, too.
  for (std::size_t d = 0; d < barriers_.size(); ++d)
    order_.group_of[d] = order_.group_of[of_steps.stands_for(DeviceId(d)).index()];
  for (const StepBarrier& b : steps.barriers()) barriers_[b.device.index()].push_back(b.task);
  proven_ = look_at_steps();
}

// Every pass of a microbatch: its first task and their number, and whether it is one of the last steps'.
std::size_t DrainSimulation::step_number(std::int32_t microbatch, std::int32_t stage,
                                         std::size_t kind) const {
  const auto stages = static_cast<std::size_t>(contents_.options().pipeline->num_stages());
  return 3 * (static_cast<std::size_t>(microbatch) * stages + static_cast<std::size_t>(stage)) + kind;
}

void DrainSimulation::begin_at(std::vector<std::size_t> first) {
  last_ = LastSteps(order_, std::move(first));
  is_last_.assign(step_number(last_.microbatches, 0, 0), false);
  for (const std::vector<PipelineStep>& steps : last_.order.steps) {
    for (const PipelineStep& step : steps) {
      const std::size_t at = step_number(step.microbatch, step.stage, number_of(step.kind));
      is_last_[at] = true;
      if (step.kind == StepKind::Backward) is_last_[at + 1] = true;
    }
  }
}

template <class Visit>
void DrainSimulation::visit_passes(const ExpandedStrategy& expanded, std::int32_t microbatch,
                                   std::int32_t expanded_as, Visit visit) const {
  const BoundStrategy& strategy = expanded.strategy();
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const BoundOperator& b = *strategy[i];
    const OperatorTasks& tasks = expanded.tasks_of(OperatorId(i), expanded_as);
    const std::size_t at = step_number(microbatch, contents_.stage_of(OperatorId(i)), 0);
    const auto pass = [&](TaskId first, const PassWork& work, std::size_t kind) {
      if (first.valid()) visit(first.index(), num_tasks(b, work), is_last_[at + kind]);
    };
    pass(tasks.forward, b.forward, 0);
    pass(tasks.recompute, b.forward, 1);
    pass(tasks.backward_input, b.backward_input, 1);
    pass(tasks.backward_weight, b.backward_weight, 2);
  }
}

// By task of an expansion of all steps, or of the last ones alone. Nothing where an earlier step is late.
std::optional<std::vector<bool>> DrainSimulation::find_late(const ExpandedStrategy& expanded,
                                                            bool last_alone) const {
  const TaskDag& dag = expanded.dag();
  const std::size_t of_one = expanded.tasks_of_one_microbatch();
  const std::int32_t first = last_alone ? 0 : last_.first_microbatch;
  std::vector<bool> late(dag.num_tasks(), false), early(dag.num_tasks(), false);
  std::vector<TaskId> open;
  const auto begin_with = [&](std::size_t task, bool is_late) {
    if (!is_late) {
      early[task] = true;
    } else if (!late[task]) {
      late[task] = true;
      open.emplace_back(task);
    }
  };
  for (std::int32_t m = 0; m < last_.microbatches; ++m) {
    visit_passes(expanded, m, first + m, [&](std::size_t task, std::size_t tasks, bool is_last) {
      for (std::size_t i = 0; i < tasks; ++i) begin_with(task + i, is_last);
    });
  }
  const std::size_t others = static_cast<std::size_t>(first) * of_one,
                    end = static_cast<std::size_t>(first + last_.microbatches) * of_one,
                    all = static_cast<std::size_t>(expanded.microbatches()) * of_one;
  const std::size_t first_barrier = dag.num_tasks() - expanded.barriers().size();
  for (std::size_t t = all; t < first_barrier; ++t) begin_with(t, true);
  std::vector<std::size_t> reached(last_.order.group_of.size(), 0);  // by device: barriers
  for (const StepBarrier& b : expanded.barriers()) {
    const auto group = static_cast<std::size_t>(last_.order.group_of[b.device.index()]);
    begin_with(b.task.index(), reached[b.device.index()]++ >= (last_alone ? 1 : last_.first[group]));
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    const TaskId task = open[i];
    const bool of_others = task.index() < others || (task.index() >= end && task.index() < all);
    if (early[task.index()] || of_others) return std::nullopt;
    for (const TaskId next : dag.successors(task)) {
      if (late[next.index()]) continue;
      late[next.index()] = true;
      open.push_back(next);
    }
  }
  return late;
}

bool DrainSimulation::look_at_steps() {
  if (order_.together != 1) return false;
  const std::vector<Nanoseconds> ready = ready_times(dag_, timeline_);
  std::vector<std::size_t> first = first_last_steps(steps_, order_);
  constexpr int kMost = 8;
  for (int tries = 0; tries < kMost; ++tries) {
    begin_at(first);
    auto late = last_.microbatches > 0 ? find_late(steps_, false) : std::nullopt;
    if (!late) return false;
    late_in_steps_ = std::move(*late);
    std::vector<Nanoseconds> first_late = first_synchronisation();
    for (std::size_t t = 0; t < ready.size(); ++t) {
      for (const LaneUse use : dag_.lanes(TaskId(t))) {
        Nanoseconds& at = first_late[use.lane.index()];
        if (late_in_steps_[t]) at = std::min(at, ready[t]);
      }
    }
    Nanoseconds among = kNever;  // when the first task was popped that comes among late ones
    for (std::size_t t = 0; t < ready.size(); ++t) {
      for (const LaneUse use : dag_.lanes(TaskId(t))) {
        if (!late_in_steps_[t] && ready[t] >= first_late[use.lane.index()]) among = std::min(among, ready[t]);
      }
    }
    if (among == kNever) return note_lanes(ready), true;
    const std::vector<std::size_t> before = first;
    include_steps_from(among, first);
    if (first == before) return false;
  }
  return false;
}

// All that end then or later.
void DrainSimulation::include_steps_from(Nanoseconds time, std::vector<std::size_t>& first) const {
  for (std::size_t d = 0; d < barriers_.size(); ++d) {
    if (barriers_[d].empty()) continue;
    std::size_t& begin = first[static_cast<std::size_t>(order_.group_of[d])];
    while (begin > 0 && timeline_.end[barriers_[d][begin - 1].index()] >= time) --begin;
  }
}

// By lane: when a gradient may be synchronised over it at the earliest; run() checks that none was earlier.
std::vector<Nanoseconds> DrainSimulation::first_synchronisation() const {
  std::vector<Nanoseconds> first(std::max(dag_.num_lanes(), contents_.costs().topology().num_lanes()),
                                 kNever);
  // By stage and kind of step: the microbatch that comes last.
  std::vector<std::size_t> last(3 * static_cast<std::size_t>(contents_.options().pipeline->num_stages()), 0);
  for (const std::vector<PipelineStep>& steps : order_.steps) {
    for (const PipelineStep& step : steps) {
      const std::size_t at = 3 * static_cast<std::size_t>(step.stage) + number_of(step.kind);
      last[at] = static_cast<std::size_t>(step.microbatch);
      if (step.kind == StepKind::Backward) last[at + 1] = last[at];
    }
  }
  const auto made = [&](OperatorId op) {
    const OperatorTasks& tasks = steps_.tasks_of(op);
    const std::size_t at = 3 * static_cast<std::size_t>(contents_.stage_of(op));
    const bool weights = tasks.backward_weight.valid();
    const TaskId task = weights ? tasks.backward_weight : tasks.backward_input;
    return timeline_.end[last[at + (weights ? 2 : 1)] * of_one_ + task.index()];
  };
  std::unordered_map<const CommunicationPlan*, Nanoseconds> met;
  for (std::size_t t = 0; t < contents_.graph().tensors().size(); ++t) {
    if (contents_.backward().gradient_makers(TensorId(t)).empty() ||
        contents_.graph().tensors()[t].kind != TensorKind::Weight)
      continue;
    Nanoseconds at = 0;
    for (const UseRef maker : contents_.backward().gradient_makers(TensorId(t)))
      at = std::max(at, made(maker.op));
    const CommunicationPlan& plan = contents_.sync_plan(TensorId(t), of_steps_.strategy());
    const auto [known, fresh] = met.try_emplace(&plan, at);
    if (!fresh && known->second <= at) continue;
    known->second = at;
    for (const LaneUse use : plan.loads) {
      Nanoseconds& lane = first[of_steps_.stands_for(use.lane).index()];
      lane = std::min(lane, at);
    }
  }
  return first;
}

// What tasks that are not late leave on the lanes.
void DrainSimulation::note_lanes(const std::vector<Nanoseconds>& ready) {
  last_pop_.assign(dag_.num_lanes(), -1);
  lane_free_.assign(dag_.num_lanes(), 0);
  for (std::size_t t = 0; t < ready.size(); ++t) {
    if (late_in_steps_[t]) continue;
    makespan_ = std::max(makespan_, timeline_.end[t]);
    for (const LaneUse use : dag_.lanes(TaskId(t))) {
      const std::size_t l = use.lane.index();
      last_pop_[l] = std::max(last_pop_[l], ready[t]);
      lane_free_[l] = std::max(lane_free_[l], timeline_.start[t] + use.hold);
    }
  }
}

// By task of the first microbatch in `last`: which one runs when it does under of_steps; −1 of statistics
// inside operators, for whose times nobody asks.
std::vector<std::int32_t> DrainSimulation::same_tasks(const ExpandedStrategy& last) const {
  std::vector<std::int32_t> same(last.tasks_of_one_microbatch(), -1);
  const auto set = [&](std::size_t task, std::size_t as) { same[task] = static_cast<std::int32_t>(as); };
  for (std::size_t i = 0; i < of_all_.strategy().size(); ++i) {
    const BoundOperator &fine = *of_all_.strategy()[i], &coarse = *of_steps_.strategy()[i];
    const OperatorTasks &now = last.tasks_of(OperatorId(i)), &then = steps_.tasks_of(OperatorId(i));
    const std::size_t shards = fine.config.devices.size(), shards_then = coarse.config.devices.size();
    const auto pass = [&](TaskId first, TaskId first_then, const PassWork& work) {
      for (std::size_t k = 0; first.valid() && k < shards; ++k) {
        const auto as = static_cast<std::size_t>(
            coarse.shard_of_device[of_steps_.stands_for(fine.config.devices[k]).index()]);
        for (std::size_t s = 0; s < work.stages(); ++s)
          set(first.index() + s * shards + k, first_then.index() + s * shards_then + as);
      }
    };
    pass(now.forward, then.forward, fine.forward);
    pass(now.recompute, then.recompute, fine.forward);
    pass(now.backward_input, then.backward_input, fine.backward_input);
    pass(now.backward_weight, then.backward_weight, fine.backward_weight);
  }
  std::unordered_map<const CommunicationPlan*, std::vector<std::int32_t>> of_plan;
  for (std::size_t w = 0; w < last.wirings().size(); ++w) {
    const Wiring &now = last.wirings()[w], &then = steps_.wirings()[w];
    if (then.microbatch != 0) break;
    const auto [at, fresh] = of_plan.try_emplace(now.plan);
    if (fresh) at->second = of_all_.same_tasks(*now.plan, of_steps_);
    for (std::size_t i = 0; i < at->second.size(); ++i)
      set(now.task(i).index(), then.task(static_cast<std::size_t>(at->second[i])).index());
  }
  std::vector<std::vector<TaskId>> gates(last_.order.group_of.size());  // by device, in their order
  for (const Gate& gate : steps_.gates()) {
    if (gate.task.index() < of_one_) gates[gate.device.index()].push_back(gate.task);
  }
  std::vector<std::size_t> met(gates.size(), 0);
  for (const Gate& gate : last.gates()) {
    if (gate.task.index() >= same.size()) break;
    set(gate.task.index(),
        gates[of_steps_.stands_for(gate.device).index()][met[gate.device.index()]++].index());
  }
  return same;
}

// Takes the times of all tasks that are not late from the timeline under of_steps. False if one is late
// there.
bool DrainSimulation::take_times(const ExpandedStrategy& last, const std::vector<bool>& late,
                                 Timeline& timeline) const {
  const std::vector<std::int32_t> same = same_tasks(last);
  timeline.start.assign(late.size(), 0);
  timeline.end.assign(late.size(), 0);
  for (std::int32_t m = 0; m < last_.microbatches; ++m) {
    const std::size_t now = static_cast<std::size_t>(m) * same.size(),
                      then = static_cast<std::size_t>(last_.first_microbatch + m) * of_one_;
    for (std::size_t x = 0; x < same.size(); ++x) {
      if (late[now + x] || same[x] < 0) continue;
      const std::size_t as = then + static_cast<std::size_t>(same[x]);
      if (late_in_steps_[as]) return false;
      timeline.start[now + x] = timeline_.start[as];
      timeline.end[now + x] = timeline_.end[as];
    }
  }
  for (const StepBarrier& b : last.barriers()) {
    if (late[b.task.index()]) continue;
    const std::size_t before = last_.first[static_cast<std::size_t>(last_.order.group_of[b.device.index()])];
    if (before == 0) continue;
    const TaskId barrier = barriers_[of_steps_.stands_for(b.device).index()][before - 1];
    timeline.start[b.task.index()] = timeline.end[b.task.index()] = timeline_.end[barrier.index()];
  }
  return true;
}

bool DrainSimulation::run(ExpandedStrategy& last, SimulationScratch& scratch, Timeline& timeline) {
  if (!proven_) return false;
  last.expand_last(of_all_.strategy(), last_.order, last_.microbatches, of_all_);
  const TaskDag& dag = last.dag();
  const auto late = find_late(last, true);
  if (!late || !take_times(last, *late, timeline)) return false;
  std::vector<Nanoseconds> lane_free(dag.num_lanes(), 0), last_pop(dag.num_lanes(), -1);
  for (std::size_t l = 0; l < lane_free.size(); ++l) {
    const std::size_t as = of_steps_.stands_for(LaneId(l)).index();
    if (as >= lane_free_.size()) continue;
    lane_free[l] = lane_free_[as];
    last_pop[l] = last_pop_[as];
  }
  std::vector<bool> done = *late;
  done.flip();
  simulate_rest(dag, done, lane_free, scratch, timeline);
  const std::vector<Nanoseconds> ready = ready_times(dag, timeline);
  begin_ = kNever;
  for (std::size_t t = 0; t < ready.size(); ++t) {
    if (done[t]) continue;
    begin_ = std::min(begin_, ready[t]);
    for (const LaneUse use : dag.lanes(TaskId(t))) {
      if (ready[t] <= last_pop[use.lane.index()]) return false;
    }
  }
  makespan_ = std::max(makespan_, timeline.makespan);
  return true;
}

}  // namespace pipesim
