#include "taskgraph/expansion/weight_gathers.h"

#include <algorithm>
#include <utility>

#include "taskgraph/binding/reused_weights.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

// The consumers of a weight by stage, in the order of the first of each.
std::vector<std::pair<std::int32_t, std::vector<UseRef>>> uses_by_stage(const PlanContents& contents,
                                                                        TensorId weight) {
  std::vector<std::pair<std::int32_t, std::vector<UseRef>>> stages;
  for (const UseRef use : contents.graph().consumers(weight)) {
    const std::int32_t stage = contents.stage_of(use.op);
    auto at = std::ranges::find(stages, stage, [](const auto& s) { return s.first; });
    if (at == stages.end()) at = stages.insert(stages.end(), {stage, {}});
    at->second.push_back(use);
  }
  return stages;
}

// Each device of the group once.
std::vector<DeviceId> devices_in(std::span<const DeviceId> group) {
  std::vector<DeviceId> devices(group.begin(), group.end());
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace

WeightGathers::WeightGathers(StrategyExpander& expander)
    : expander_(expander), contents_(expander.made().contents()), made_(expander.made()) {
  if (contents_.options().state_sharding.gathers_before_use()) find_layers();
  if (contents_.reuses_gathered()) {
    stays_ = reused_weights(contents_.graph(), contents_.backward(), contents_.recomputation(),
                            contents_.costs().runtime().reuse_distance);
  }
  if (broadcasts()) streams_ = expander.empty_streams();
}

void WeightGathers::find_layers() {
  const std::vector<std::int32_t> of_model = layers_of(contents_.graph());
  const bool any = std::ranges::any_of(of_model, [](std::int32_t layer) { return layer != kNoLayer; });
  const auto& pipeline = contents_.options().pipeline;
  layers_.assign(static_cast<std::size_t>(pipeline ? pipeline->num_stages() : 1), 0);
  std::vector<std::int32_t> before(layers_.size(), kNoLayer - 1);  // by stage
  for (std::size_t i = 0; i < of_model.size(); ++i) {
    const auto stage = static_cast<std::size_t>(contents_.stage_of(OperatorId(i)));
    if (!any || of_model[i] != before[stage]) ++layers_[stage];
    before[stage] = of_model[i];
    layer_of_.push_back(layers_[stage] - 1);
  }
  // The second run of a segment comes before the backward of the last operator that reads what it makes.
  needed_by_ = layer_of_;
  for (const Recomputation::Segment& segment : contents_.recomputation().segments()) {
    for (const OperatorId op : segment.operators) needed_by_[op.index()] = layer_of_[segment.last.index()];
  }
}

WeightGathers::Part& WeightGathers::part_of(std::int32_t stage, DeviceId device) {
  return parts_[static_cast<std::size_t>(stage) * devices_->size() + (*devices_)[device]];
}

// Notes what ends which layer on which device. All microbatches that go one way have the same tasks.
void WeightGathers::begin(const BoundStrategy& strategy, std::int32_t microbatch) {
  now_ = &strategy;
  microbatch_ = microbatch;
  if (microbatch > 0) return;
  devices_.emplace(strategy, contents_.costs().topology().num_devices());
  parts_.resize(layers_.size() * devices_->size());
  for (std::int32_t way = 0; way < ways(); ++way) note_layers(contents_.strategy_of(way, strategy), way);
}

// The ways that any microbatch goes.
std::int32_t WeightGathers::ways() const { return std::min(contents_.ways(), made_.microbatches()); }

// Notes the layers of a way. Where microbatches go both ways, a device has another stage on each.
void WeightGathers::note_layers(const BoundStrategy& strategy, std::int32_t way) {
  const auto note = [&](OperatorId op, TaskId first, const PassWork& work, auto keep) {
    if (!first.valid()) return;
    const BoundOperator& bound = *strategy[op.index()];
    const TaskId last = last_stage(first, bound, work);
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k)
      keep(part_of(contents_.stage_of(op), bound.config.devices[k]),
           task_at(last, static_cast<std::int32_t>(k)));
  };
  const auto ends = [](std::int32_t position) {
    return [position](Part& part, TaskId task) {
      if (part.done.empty() || part.done.back().position != position) part.done.push_back({position, {}});
      part.done.back().task = task;
    };
  };
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const OperatorId op(i);
    note(op, made_.tasks_of(op, way).forward, strategy[i]->forward, ends(layer_of_[i]));
  }
  for (std::size_t i = strategy.size(); i-- > 0;) {
    const OperatorId op(i);
    const OperatorTasks& tasks = made_.tasks_of(op, way);
    const std::int32_t back = 2 * layers_in(contents_.stage_of(op)) - 1 - layer_of_[i];
    note(op, tasks.backward_input, strategy[i]->backward_input, ends(back));
    note(op, tasks.backward_weight, strategy[i]->backward_weight,
         [](Part& part, TaskId task) { part.last_weights = task; });
  }
}

void WeightGathers::add_before_use(const BoundStrategy& strategy, std::int32_t microbatch) {
  begin(strategy, microbatch);
  const bool all = contents_.options().state_sharding.keeps_gathered();
  const auto gather = [&](TensorId weight) {
    const bool keep = all || (!stays_.empty() && stays_[weight.index()]);
    for (const Uses& u : uses_of(weight)) {
      const bool back = is_read_in_backward(u.uses);
      add(weight, u.uses, {u.stage, false, u.forward}, keep && back ? ReadIn::BothPasses : ReadIn::Forward);
      if (!keep && back) add(weight, u.uses, {u.stage, true, u.back}, ReadIn::Backward);
    }
  };
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    for (const TensorId weight : contents_.backward().owned_weights(OperatorId(i))) gather(weight);
    for (const TensorId weight : contents_.backward().frozen_weights(OperatorId(i))) {
      if (contents_.graph().tensor(weight).frozen) gather(weight);
    }
  }
  interfere();
}

// The gathers of a layer begin together.
void WeightGathers::interfere() {
  expander_.add_interferences([&](std::uint64_t group, DeviceId device, TaskId task) {
    const auto stage = static_cast<std::int32_t>(group >> 32), position = static_cast<std::int32_t>(group);
    wait_for_layers(task, {stage, position >= layers_in(stage), position}, device);
  });
}

void WeightGathers::add_in_forward(const BoundStrategy& strategy) {
  begin(strategy, 0);
  in_forward_.clear();
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    for (const TensorId weight : contents_.backward().owned_weights(OperatorId(i))) {
      for (const Uses& u : uses_of(weight)) add(weight, u.uses, {u.stage, false, u.forward}, ReadIn::Forward);
    }
  }
  interfere();
  if (broadcasts()) broadcast_in_turn();
}

bool WeightGathers::broadcasts() const {
  return gathers_by(contents_.costs().runtime(), contents_.options().state_sharding) == GatherBy::Broadcast;
}

// Queues broadcasts in the order in which layers need them.
void WeightGathers::broadcast_in_turn() {
  std::ranges::stable_sort(in_forward_, {}, [](const auto& gather) {
    return std::pair(gather.first.stage, gather.first.position);
  });
  for (const auto& [place, wiring] : in_forward_) expander_.queue(made_.wirings()[wiring], streams_);
}

// Layers below the first trained weight have no backward; their frozen weights are gathered for forward
// alone.
bool WeightGathers::is_read_in_backward(std::span<const UseRef> uses) const {
  return std::ranges::any_of(uses, [&](UseRef use) {
    const OperatorTasks& tasks = made_.tasks_of(use.op, microbatch_);
    return tasks.recompute.valid() || tasks.backward_input.valid() || tasks.backward_weight.valid();
  });
}

std::vector<WeightGathers::Uses> WeightGathers::uses_of(TensorId weight) const {
  std::vector<Uses> found;
  for (auto& [stage, uses] : uses_by_stage(contents_, weight)) {
    std::int32_t first = INT32_MAX, last = 0;  // layers
    for (const UseRef use : uses) {
      first = std::min(first, layer_of_[use.op.index()]);
      last = std::max(last, needed_by_[use.op.index()]);
    }
    found.push_back({stage, std::move(uses), first, 2 * layers_in(stage) - 1 - last});
  }
  return found;
}

void WeightGathers::add(TensorId weight, std::span<const UseRef> uses, const Place& place, ReadIn readers) {
  const LayoutId target = contents_.needed_in(place.stage, weight, *now_);
  if (!contents_.gathers(weight, target, *now_)) return;
  Wiring& wiring = expander_.begin_wiring(TaskKind::WeightGather, weight);
  wiring.read_in = readers;
  if (contents_.options().state_sharding.gathers_in_forward()) wiring.microbatch = -1;
  wiring.ordinal = 2 * place.stage + (place.backward ? 1 : 0);
  wiring.destinations.assign(uses.begin(), uses.end());
  wiring.plan = &expander_.folded(contents_.gather_plan(weight, target, *now_));
  expander_.add_transfers(wiring);
  for (std::size_t t = 0; t < wiring.plan->tasks.size(); ++t) {
    for (const DeviceId device : devices_in(wiring.plan->tasks[t].group))
      wait_for_layers(wiring.task(t), place, device);
  }
  expander_.interfere(
      wiring, static_cast<std::uint64_t>(place.stage) << 32 | static_cast<std::uint64_t>(place.position));
  connect_readers(wiring);
  if (broadcasts()) in_forward_.emplace_back(place, made_.wirings().size() - 1);
}

// What is gathered for all microbatches is read by the first one of each way.
void WeightGathers::connect_readers(const Wiring& wiring) {
  if (wiring.microbatch >= 0) return connect_readers(wiring, *now_, microbatch_);
  for (std::int32_t way = 0; way < ways(); ++way)
    connect_readers(wiring, contents_.strategy_of(way, *now_), way);
}

void WeightGathers::connect_readers(const Wiring& wiring, const BoundStrategy& strategy,
                                    std::int32_t microbatch) {
  for (const UseRef use : wiring.destinations) {
    const OperatorTasks& tasks = made_.tasks_of(use.op, microbatch);
    const auto connect = [&](TaskId first) {
      if (first.valid())
        pipesim::connect_readers(expander_.dag(), *wiring.plan, wiring.first_task, first,
                                 strategy[use.op.index()]->shard_of_device);
    };
    if (wiring.read_in != ReadIn::Backward) {
      connect(tasks.forward);  // whose data backward waits for
      continue;
    }
    connect(tasks.recompute);
    connect(tasks.backward_input);
    connect(tasks.backward_weight);
  }
}

// Devices without a part in the stage only send what they keep.
void WeightGathers::wait_for_layers(TaskId gather, const Place& place, DeviceId device) {
  // Its tasks are those of the first microbatch.
  Part& part = part_of(place.stage, device);
  if (part.done.empty()) return;
  const std::int32_t through = place.position - 1 - contents_.options().state_sharding.prefetch;
  const auto behind = std::ranges::upper_bound(part.done, through, {}, &Part::Done::position);
  const bool any = behind != part.done.begin();
  if (any) expander_.dag().add_edge(made_.in_microbatch(std::prev(behind)->task, microbatch_), gather);
  if (contents_.options().state_sharding.gathers_in_forward()) return;
  const bool in_step = any && (std::prev(behind)->position >= layers_in(place.stage)) == place.backward;
  if (in_step || microbatch_ > 0) return;
  // Without stages, and with nothing before it on the way forward, it waits for the microbatch before.
  const bool with_backward = place.backward && (any || contents_.options().pipeline);
  (with_backward ? part.first_backward : part.first_forward).push_back(gather);
}

TaskId WeightGathers::last_of(const PipelineStep& step, const Part& part) const {
  if (step.kind == StepKind::BackwardWeight && part.last_weights.valid()) return part.last_weights;
  const std::int32_t layers = layers_in(step.stage);
  TaskId last;
  for (const Part::Done& done : part.done) {
    if (step.kind != StepKind::Forward || done.position < layers) last = done.task;
  }
  return last;
}

void WeightGathers::enter(std::span<const PipelineStep> steps, DeviceId device, bool alone) {
  if (!contents_.options().state_sharding.gathers_to_use()) return;
  steps_before_.resize(contents_.costs().topology().num_devices());
  std::vector<TaskId>& before = steps_before_[device.index()];
  std::vector<TaskId> now;
  for (const PipelineStep& step : steps) {
    const Part& part = part_of(step.stage, device);
    for (const TaskId task : before) {
      if (step.kind == StepKind::BackwardWeight) break;
      for (const TaskId first : step.kind == StepKind::Forward ? part.first_forward : part.first_backward)
        expander_.dag().add_edge(task, made_.in_microbatch(first, step.microbatch));
    }
    const PipelineStep ends{alone ? step.kind : StepKind::Backward, step.microbatch, step.stage};
    const TaskId last = last_of(ends, part);
    if (last.valid()) now.push_back(made_.in_microbatch(last, step.microbatch));
  }
  if (!now.empty()) before = std::move(now);
}

void WeightGathers::add_after_update(OperatorId owner, TaskId update,
                                     std::span<const std::int32_t> update_of_device) {
  std::map<DeviceId, std::vector<TaskId>> arrivals;
  for (const TensorId weight : contents_.backward().owned_weights(owner)) {
    const LayoutId home = contents_.home_of(weight, made_.strategy());
    if (home == contents_.state_of(weight, made_.strategy())) continue;
    Wiring& wiring = expander_.begin_wiring(TaskKind::WeightGather, weight);
    wiring.microbatch = -1;
    wiring.plan = &expander_.folded(contents_.gather_plan(weight, home, made_.strategy()));
    expander_.add_transfers(wiring);
    if (broadcasts()) expander_.queue(wiring, streams_);
    connect_source(expander_.dag(), *wiring.plan, wiring.first_task, 0, update, update_of_device);
    for (const PlanExpansion::Arrival a : wiring.plan->expansion.arrivals)
      arrivals[a.device].push_back(task_at(wiring.first_task, a.task));
    for (const DeviceId d : wiring.plan->local) (void)arrivals[d];  // has got it from nobody else
  }
  for (auto& [device, tasks] : arrivals) {
    const std::int32_t own = update_of_device[device.index()];
    if (own >= 0) tasks.push_back(task_at(update, own));
  }
  for (const auto& [device, tasks] : arrivals) {
    TaskLabel label;
    label.op = owner;
    label.tensor = contents_.backward().owned_weights(owner).front();
    const TaskId gate = expander_.add_gate(gathered_key(owner, device), device, label, owner);
    for (const TaskId task : tasks) expander_.dag().add_edge(task, gate);
  }
}

}  // namespace pipesim
