#include "taskgraph/expansion/editable_task_graph.h"

#include <algorithm>
#include <utility>

#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"

namespace pipesim {
namespace {

// Takes edges away by the rules that add them.
struct EdgeRemover {
  EditableDag& dag;
  void add_edge(TaskId before, TaskId after) const { dag.remove_edge(before, after); }
};

}  // namespace

EditableTaskGraph::EditableTaskGraph(const PlanContents& contents)
    : contents_(contents),
      graph_(contents.graph()),
      tasks_(graph_.operators().size()),
      tensors_(graph_.tensors().size()),
      updates_(graph_.operators().size()),
      communicators_(contents.device_groups(), contents.costs().topology().num_devices()),
      changed_in_(graph_.operators().size(), 0),
      updated_in_(graph_.operators().size(), 0),
      affected_in_(graph_.tensors().size(), 0),
      least_(contents.costs()) {
  std::size_t ways = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorId t(i);
    tensors_[i] = {contents.backward().producing_use(t), {}, contents.backward().has_backward(t), ways, 0};
    ways += 1 + (tensors_[i].producer.op.valid() ? graph_.consumers(t).size() : 0);
  }
  ways_.resize(ways);
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    for (const TensorId w : contents.backward().owned_weights(OperatorId(i)))
      tensors_[w.index()].owner = OperatorId(i);
  }
}

void EditableTaskGraph::begin() {
  if (++edit_ == 0) {  // after 2^32 edits
    for (auto* last : {&changed_in_, &affected_in_, &updated_in_}) std::ranges::fill(*last, 0);
    edit_ = 1;
  }
  changed_.clear();
  owners_.clear();
  affected_.clear();
  configs_before_.clear();
  tasks_before_.clear();
  ways_before_.clear();
  updates_before_.clear();
  loads_before_ = loads_;
  allocated_before_ = allocated_;
  counted_.clear();
}

void EditableTaskGraph::build(const BoundStrategy& strategy) {
  dag_.clear();
  loads_.assign(contents_.costs().topology().num_lanes(), 0);
  allocated_.assign(contents_.costs().topology().num_devices(), Bytes(0));
  communicators_ = {contents_.device_groups(), contents_.costs().topology().num_devices()};
  for (const TensorId w : contents_.backward().frozen_weights()) {
    for (Bytes& b : allocated_) b += graph_.tensor(w).bytes();  // at most whole, on every device
  }
  std::ranges::fill(ways_, Way{});
  for (TensorEnds& t : tensors_) t.num_forward = 0;
  std::ranges::fill(updates_, Updates{});
  begin();
  strategy_.assign(strategy.size(), nullptr);
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    stop_if_late();
    set_config({OperatorId(i), strategy[i]});
  }
  plan(kNoLimit);
}

bool EditableTaskGraph::change(std::span<const BoundChange> changes, Nanoseconds limit) {
  begin();
  for (const BoundChange c : changes) set_config(c);
  return plan(limit);
}

void EditableTaskGraph::set_config(BoundChange change) {
  changed_in_[change.op.index()] = edit_;
  const auto at = std::ranges::lower_bound(changed_, change.op) - changed_.begin();
  changed_.insert(changed_.begin() + at, change.op);
  const BoundOperator*& config = strategy_[change.op.index()];
  configs_before_.insert(configs_before_.begin() + at, std::exchange(config, change.config));
  tasks_before_.insert(tasks_before_.begin() + at, std::exchange(tasks_[change.op.index()], {}));
}

void EditableTaskGraph::affect(TensorId tensor) {
  if (std::exchange(affected_in_[tensor.index()], edit_) != edit_) affected_.push_back({tensor});
}

void EditableTaskGraph::list_affected() {
  for (const OperatorId op : changed_) {
    for (const TensorUse& use : graph_.op(op).uses) {
      const OperatorId owner = tensors_[use.tensor.index()].owner;
      if (use.role != Role::Weight && use.role != Role::State) affect(use.tensor);
      if (!owner.valid()) continue;
      if (std::exchange(updated_in_[owner.index()], edit_) == edit_) continue;
      owners_.push_back(owner);
      for (const TensorId w : contents_.backward().owned_weights(owner)) affect(w);
    }
  }
}

// Leaves the loads that stay whatever the changed operators do: what is added of them from now on only makes
// loads grow.
void EditableTaskGraph::take_away() {
  for (const BoundOperator* config : configs_before_) {
    if (config) count(*config, -1);
  }
  for (const OperatorId owner : owners_) {
    updates_before_.push_back(updates_[owner.index()]);
    if (updates_before_.back().work) count(*updates_before_.back().work, -1);
  }
  for (Affected& a : affected_) {
    a.first_before = ways_before_.size();
    a.num_forward_before = tensors_[a.tensor.index()].num_forward;
    ways_before_.push_back(std::exchange(gradient_way(a.tensor), Way{}));
    for (const Way& way : forward_ways(a.tensor)) ways_before_.push_back(way);
    tensors_[a.tensor.index()].num_forward = 0;
    bool gradient = true;
    for (Way& way : ways_before(a)) {
      way.kept = false;
      const TaskKind kind = gradient ? gradient_kind(a.tensor) : TaskKind::ForwardTransfer;
      if (way.plan) count(kind, *way.plan, -1);
      gradient = false;
    }
  }
}

bool EditableTaskGraph::plan(Nanoseconds limit) {
  list_affected();
  take_away();
  most_ = 0;
  for (const OperatorId op : changed_) count(*strategy_[op.index()], 1);
  if (most_ > limit) return false;
  for (const OperatorId owner : owners_) plan_updates(owner);
  if (!plan_known(limit)) return false;
  for (const Affected& a : affected_) {
    if (most_ > limit) return false;
    if (!a.planned) plan_ways(a);
  }
  return most_ <= limit;
}

// Takes plans that are known already. A lower bound for all others rejects most changes that take too long,
// without planning them.
bool EditableTaskGraph::plan_known(Nanoseconds limit) {
  least_.clear();
  for (Affected& a : affected_) {
    if (most_ > limit) return false;
    a.planned = limit == kNoLimit || !add_least(a.tensor);
    if (a.planned) plan_ways(a);
    if (!a.planned && least_.exceeds(loads_, limit)) return false;
  }
  return !least_.exceeds(loads_, limit);
}

// Adds the least traffic of those ways of the tensor that nobody has planned yet; false when there is none.
bool EditableTaskGraph::add_least(TensorId tensor) {
  const TensorEnds& t = tensors_[tensor.index()];
  if (t.owner.valid() || t.backward) contents_.list_gradient_terms(tensor, strategy_, terms_);
  if (t.owner.valid())
    return add_least(tensor, TaskKind::GradientSync, terms_, contents_.home_of(tensor, strategy_));
  bool unplanned = t.backward && add_least(tensor, TaskKind::BackwardTransfer, terms_,
                                           gradient_layout(t.producer, strategy_));
  if (!t.producer.op.valid()) return unplanned;
  const LayoutId source = data_layout(t.producer, strategy_);
  const std::span<const UseRef> consumers = graph_.consumers(tensor);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const LayoutId target = data_layout(consumers[i], strategy_);
    const auto same = [&](UseRef earlier) { return data_layout(earlier, strategy_) == target; };
    if (std::ranges::any_of(consumers.first(i), same)) continue;
    unplanned |= add_least(tensor, TaskKind::ForwardTransfer, std::span(&source, 1), target);
  }
  return unplanned;
}

bool EditableTaskGraph::add_least(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms,
                                  LayoutId target) {
  const Moved moved = kind == TaskKind::BackwardTransfer ? Moved::Gradient : Moved::Data;
  const CommunicationPlans::Setting setting =
      kind == TaskKind::GradientSync ? contents_.sync_setting() : contents_.transfer_setting(tensor, moved);
  if (contents_.plans().find(terms, target, setting)) return false;
  least_.add(contents_.layouts(), terms, target, setting.least_element_bytes());
  return true;
}

void EditableTaskGraph::plan_updates(OperatorId owner) {
  Updates& updates = updates_[owner.index()];
  const OwnedUpdates& work = contents_.update_work(owner, strategy_);
  if (updates.work != &work) updates = {&work, {}};
  count(work, 1);
}

std::span<EditableTaskGraph::Way> EditableTaskGraph::forward_ways(TensorId tensor) {
  const TensorEnds& t = tensors_[tensor.index()];
  return std::span(ways_).subspan(t.first_way + 1, t.num_forward);
}

// Returns the ways before the edit, that of the tensor's gradient first.
std::span<EditableTaskGraph::Way> EditableTaskGraph::ways_before(const Affected& affected) {
  return std::span(ways_before_).subspan(affected.first_before, 1 + affected.num_forward_before);
}

TaskKind EditableTaskGraph::gradient_kind(TensorId tensor) const {
  return tensors_[tensor.index()].owner.valid() ? TaskKind::GradientSync : TaskKind::BackwardTransfer;
}

// Ways with the same tasks as before keep them.
void EditableTaskGraph::plan_ways(const Affected& affected) {
  const TensorId tensor = affected.tensor;
  const auto take_over = [](Way& before, Way& after) {
    if (!before.plan || before.plan != after.plan || before.ordinal != after.ordinal) return;
    after.first_task = before.first_task;
    before.kept = after.kept = true;
  };
  if (tensors_[tensor.index()].owner.valid()) {
    gradient_way(tensor).plan = &contents_.sync_plan(tensor, strategy_);
  } else {
    plan_forward(affected);
    plan_backward(tensor);
  }
  const std::span<Way> before = ways_before(affected);
  for (Way& way : forward_ways(tensor)) {
    for (Way& old : before.subspan(1)) take_over(old, way);
    count(TaskKind::ForwardTransfer, *way.plan, 1);
  }
  Way& gradient = gradient_way(tensor);
  take_over(before.front(), gradient);
  if (gradient.plan) count(gradient_kind(tensor), *gradient.plan, 1);
}

// One way for each layout that is wanted.
void EditableTaskGraph::plan_forward(const Affected& affected) {
  TensorEnds& tensor = tensors_[affected.tensor.index()];
  if (!tensor.producer.op.valid()) return;
  const auto consumers = graph_.consumers(affected.tensor);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const LayoutId target = data_layout(consumers[i], strategy_);
    const auto has_target = [&](const Way& way) { return way.plan->target == target; };
    if (std::ranges::any_of(forward_ways(affected.tensor), has_target)) continue;
    ways_[tensor.first_way + 1 + tensor.num_forward++] = {
        &forward_plan(affected, target), {}, static_cast<std::int32_t>(i)};
  }
}

const CommunicationPlan& EditableTaskGraph::forward_plan(const Affected& affected, LayoutId target) {
  const UseRef producer = tensors_[affected.tensor.index()].producer;
  if (!is_changed(producer.op)) {
    for (const Way& way : ways_before(affected).subspan(1)) {
      if (way.plan->target == target) return *way.plan;
    }
  }
  const LayoutId source = data_layout(producer, strategy_);
  return contents_.transfer_plan(affected.tensor, std::span(&source, 1), target, Moved::Data);
}

void EditableTaskGraph::plan_backward(TensorId tensor) {
  const TensorEnds& t = tensors_[tensor.index()];
  if (!t.backward) return;
  contents_.list_gradient_terms(tensor, strategy_, terms_);
  gradient_way(tensor).plan =
      &contents_.transfer_plan(tensor, terms_, gradient_layout(t.producer, strategy_), Moved::Gradient);
}

void EditableTaskGraph::remove_operator(std::size_t number) {
  if (!configs_before_[number]) return;
  const BoundOperator& bound = *configs_before_[number];
  const OperatorTasks& tasks = tasks_before_[number];
  dag_.remove_tasks(tasks.forward, num_tasks(bound, bound.forward));
  dag_.remove_tasks(tasks.backward_input, num_tasks(bound, bound.backward_input));
  dag_.remove_tasks(tasks.backward_weight, num_tasks(bound, bound.backward_weight));
}

void EditableTaskGraph::remove_tasks() {
  for (std::size_t i = 0; i < changed_.size(); ++i) remove_operator(i);
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    const Updates& before = updates_before_[i];
    if (before.work && before.work != updates_[owners_[i].index()].work)
      dag_.remove_tasks(before.first, before.work->devices.size());
  }
  for (const Way& way : ways_before_) {
    if (way.plan && !way.kept) dag_.remove_tasks(way.first_task, way.plan->tasks.size());
  }
}

void EditableTaskGraph::carry_out() {
  remove_tasks();
  add_tasks();
  connect();
  dag_.finish();
}

// In the order of time, so that a task mostly comes after those it waits for.
void EditableTaskGraph::add_tasks() {
  for (const OperatorId op : changed_) {
    stop_if_late();
    add_forward(op);
  }
  for (auto op = changed_.rbegin(); op != changed_.rend(); ++op) add_backward(*op);
  for (const Affected& a : affected_) {  // what is left: of tensors whose ends did not change
    stop_if_late();
    for (Way& way : forward_ways(a.tensor)) add_way(a.tensor, TaskKind::ForwardTransfer, way);
    add_way(a.tensor, gradient_kind(a.tensor), gradient_way(a.tensor));
  }
  for (const OperatorId owner : owners_) {
    Updates& updates = updates_[owner.index()];
    if (updates.first.valid()) continue;
    updates.first = TaskId(dag_.num_ids());
    for (std::size_t i = 0; i < updates.work->devices.size(); ++i) {
      const DeviceId d = updates.work->devices[i];
      dag_.add_task(compute_key(TaskKind::Update, 0, owner, 0, d), updates.work->durations[i],
                    LaneId(d.value));
    }
  }
}

void EditableTaskGraph::add_forward(OperatorId op) {
  const auto add_ways = [&](bool outputs) {
    for (const TensorUse& use : graph_.op(op).uses) {
      if ((use.role == Role::Output) != outputs) continue;
      for (Way& way : forward_ways(use.tensor)) add_way(use.tensor, TaskKind::ForwardTransfer, way);
    }
  };
  const BoundOperator& bound = *strategy_[op.index()];
  add_ways(false);
  tasks_[op.index()].forward = add_pass(dag_, op, bound, TaskKind::Forward, bound.forward, 0);
  add_ways(true);
}

void EditableTaskGraph::add_backward(OperatorId op) {
  const auto add_ways = [&](Role role) {
    for (const TensorUse& use : graph_.op(op).uses) {
      if (use.role == role) add_way(use.tensor, TaskKind::BackwardTransfer, gradient_way(use.tensor));
    }
  };
  const BoundOperator& bound = *strategy_[op.index()];
  OperatorTasks& tasks = tasks_[op.index()];
  add_ways(Role::Output);
  tasks.backward_input = add_pass(dag_, op, bound, TaskKind::BackwardInput, bound.backward_input, 0);
  tasks.backward_weight = add_pass(dag_, op, bound, TaskKind::BackwardWeight, bound.backward_weight, 0);
  add_ways(Role::Input);
}

// Adds the tasks of a way unless they are there already.
void EditableTaskGraph::add_way(TensorId tensor, TaskKind kind, Way& way) {
  if (!way.plan || way.kept || way.first_task.valid()) return;
  const std::uint64_t key = transfer_key_high(kind, 0, tensor, static_cast<std::uint64_t>(way.ordinal));
  way.first_task = add_transfers(dag_, *way.plan, key);
}

std::span<const UseRef> EditableTaskGraph::sources(TensorId tensor, TaskKind kind) const {
  if (kind == TaskKind::ForwardTransfer) return std::span(&tensors_[tensor.index()].producer, 1);
  return contents_.backward().gradient_makers(tensor);
}

// Returns the term of the plan that a source makes.
std::int32_t EditableTaskGraph::term_of(TensorId tensor, const CommunicationPlan& plan, UseRef source) {
  if (!plan.term_by_term) return 0;
  contents_.list_gradient_terms(tensor, strategy_, terms_);
  const auto term = std::ranges::find(terms_, gradient_layout(source, strategy_));
  return static_cast<std::int32_t>(term - terms_.begin());
}

void EditableTaskGraph::add_reader(TaskId first, OperatorId op) {
  if (first.valid()) readers_.push_back({first, strategy_[op.index()]->shard_of_device, is_changed(op)});
}

void EditableTaskGraph::list_readers(TensorId tensor, TaskKind kind, const Way& way) {
  readers_.clear();
  const TensorEnds& t = tensors_[tensor.index()];
  if (kind == TaskKind::GradientSync) {
    const Updates& updates = updates_[t.owner.index()];
    readers_.push_back({updates.first, updates.work->update_of_device, updates.first >= dag_.first_added()});
  } else if (kind == TaskKind::BackwardTransfer) {
    add_reader(tasks_[t.producer.op.index()].backward_input, t.producer.op);
    add_reader(tasks_[t.producer.op.index()].backward_weight, t.producer.op);
  } else {
    for (const UseRef use : graph_.consumers(tensor)) {
      if (data_layout(use, strategy_) == way.plan->target) add_reader(tasks_[use.op.index()].forward, use.op);
    }
  }
}

// Adds new edges: all of a way whose tasks are new, else those of changed operators.
void EditableTaskGraph::connect_way(TensorId tensor, TaskKind kind, const Way& way) {
  if (!way.plan) return;
  list_readers(tensor, kind, way);
  if (!way.kept) connect_transfers(dag_, *way.plan, way.first_task);
  for (const UseRef source : sources(tensor, kind)) {
    const BoundOperator& bound = *strategy_[source.op.index()];
    const TaskId maker = making_tasks(kind, bound, tasks_[source.op.index()]);
    const std::span<const std::int32_t> shards = bound.shard_of_device;
    const bool all = !way.kept || is_changed(source.op);
    if (all)
      connect_source(dag_, *way.plan, way.first_task, term_of(tensor, *way.plan, source), maker, shards);
    for (const Reader& r : readers_) {
      if (all || r.changed) connect_local(dag_, *way.plan, maker, shards, r.first, r.reader_of_device);
    }
  }
  for (const Reader& r : readers_) {
    if (!way.kept || r.changed) connect_readers(dag_, *way.plan, way.first_task, r.first, r.reader_of_device);
  }
}

// Removes the edges of a removed way between operators that did not change. All its other edges go with
// tasks.
void EditableTaskGraph::disconnect_way(TensorId tensor, TaskKind kind, const Way& way) {
  if (!way.plan || way.kept) return;
  list_readers(tensor, kind, way);
  EdgeRemover remover{dag_};
  for (const UseRef source : sources(tensor, kind)) {
    if (is_changed(source.op)) continue;
    const BoundOperator& bound = *strategy_[source.op.index()];
    const TaskId maker = making_tasks(kind, bound, tasks_[source.op.index()]);
    for (const Reader& r : readers_) {
      if (!r.changed)
        connect_local(remover, *way.plan, maker, bound.shard_of_device, r.first, r.reader_of_device);
    }
  }
}

void EditableTaskGraph::connect() {
  for (const OperatorId op : changed_) connect_operator(dag_, *strategy_[op.index()], tasks_[op.index()]);
  for (const Affected& a : affected_) {
    const TaskKind gradient = gradient_kind(a.tensor);
    const std::span<const Way> before = ways_before(a);
    disconnect_way(a.tensor, gradient, before.front());
    for (const Way& way : before.subspan(1)) disconnect_way(a.tensor, TaskKind::ForwardTransfer, way);
    connect_way(a.tensor, gradient, gradient_way(a.tensor));
    for (const Way& way : forward_ways(a.tensor)) connect_way(a.tensor, TaskKind::ForwardTransfer, way);
  }
}

void EditableTaskGraph::keep() { dag_.keep(); }

void EditableTaskGraph::undo() {
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    strategy_[changed_[i].index()] = configs_before_[i];
    tasks_[changed_[i].index()] = tasks_before_[i];
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) updates_[owners_[i].index()] = updates_before_[i];
  for (const Affected& a : affected_) {
    TensorEnds& tensor = tensors_[a.tensor.index()];
    tensor.num_forward = a.num_forward_before;
    std::ranges::copy(ways_before(a), ways_.begin() + static_cast<std::ptrdiff_t>(tensor.first_way));
  }
  std::swap(loads_, loads_before_);
  std::swap(allocated_, allocated_before_);
  for (const Needed& n : counted_) communicators_.add(*n.communicators, -n.sign);
  dag_.undo();
}

void EditableTaskGraph::count(LaneId lane, Nanoseconds hold) {
  Nanoseconds& load = loads_[lane.index()];
  load += hold;
  most_ = std::max(most_, load);
}

void EditableTaskGraph::count(const Communicators& needed, std::int32_t sign) {
  if (!needed.any()) return;
  counted_.push_back({&needed, sign});
  communicators_.add(needed, sign);
}

void EditableTaskGraph::count(TaskKind kind, const CommunicationPlan& plan, std::int64_t sign) {
  count(plan.communicators, static_cast<std::int32_t>(sign));
  for (const LaneUse& use : plan.loads) count(use.lane, sign * use.hold);
  if (kind == TaskKind::GradientSync) return;  // reduced in place
  for (const auto& [device, bytes] : plan.received) allocated_[device.index()] += sign * bytes;
}

void EditableTaskGraph::count(const BoundOperator& bound, std::int64_t sign) {
  count(bound.communicators, static_cast<std::int32_t>(sign));
  for (const LaneUse& use : bound.loads) count(use.lane, sign * use.hold);
  for (std::size_t k = 0; k < bound.memory.size(); ++k) {
    const ShardMemory& m = bound.memory[k];
    allocated_[bound.config.devices[k].index()] +=
        sign * (m.outputs + m.saved + m.input_copy + m.gradient_copy + m.input_gradients + m.forward_blocks +
                m.backward_blocks + m.in_forward() + m.in_backward());
  }
}

void EditableTaskGraph::count(const OwnedUpdates& work, std::int64_t sign) {
  for (std::size_t i = 0; i < work.devices.size(); ++i) {
    const WeightMemory& m = work.memory[i];
    count(LaneId(work.devices[i].value), sign * work.durations[i]);
    allocated_[work.devices[i].index()] +=
        sign * (m.weights + m.gradients + m.optimizer_state + work.widened[i] + work.intermediates[i]);
  }
}

}  // namespace pipesim
