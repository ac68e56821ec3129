#include "taskgraph/editable_task_graph.h"

#include <algorithm>
#include <utility>

#include "taskgraph/expansion.h"

namespace pipesim {
namespace {

// Takes edges away by the rules that add them.
struct EdgeRemover {
  EditableDag& dag;
  void add_edge(TaskId before, TaskId after) const { dag.remove_edge(before, after); }
};

// The same tasks: those that are there stay.
void match(Wiring& before, Wiring& after) {
  if (!before.plan || before.plan != after.plan || before.ordinal != after.ordinal) return;
  after.first_task = before.first_task;
  before.kept = after.kept = true;
}

}  // namespace

EditableTaskGraph::EditableTaskGraph(TaskGraphBuilder& contents)
    : contents_(contents),
      graph_(contents.graph()),
      tasks_(graph_.operators().size()),
      ways_(graph_.tensors().size()),
      updates_(graph_.operators().size()),
      owner_(graph_.tensors().size()),
      changed_in_(graph_.operators().size(), 0),
      affected_in_(graph_.tensors().size(), 0),
      updated_in_(graph_.operators().size(), 0) {
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    for (const TensorId w : contents.owned_weights(OperatorId(i))) owner_[w.index()] = OperatorId(i);
  }
}

void EditableTaskGraph::begin() {
  if (++edit_ == 0) {  // after 2^32 edits
    for (auto* last : {&changed_in_, &affected_in_, &updated_in_}) std::ranges::fill(*last, 0);
    edit_ = 1;
  }
  changed_.clear();
  owners_.clear();
  tensors_.clear();
  configs_before_.clear();
  tasks_before_.clear();
  updates_before_.clear();
  loads_before_ = loads_;
  allocated_before_ = allocated_;
}

void EditableTaskGraph::build(const BoundStrategy& strategy) {
  dag_.clear();
  loads_.assign(contents_.costs().topology().num_lanes(), 0);
  allocated_.assign(contents_.costs().topology().num_devices(), Bytes(0));
  for (const TensorId w : contents_.frozen_weights()) {
    const Tensor& t = graph_.tensor(w);  // at most whole, on every device
    for (Bytes& b : allocated_) b += Bytes(t.elements() * bytes_per_element(t.type));
  }
  for (Ways& w : ways_) w.num_forward = 0, w.backward.plan = w.sync.plan = nullptr;
  std::ranges::fill(updates_, Updates{});
  begin();
  strategy_.assign(strategy.size(), nullptr);
  for (std::size_t i = 0; i < strategy.size(); ++i) set_config({OperatorId(i), strategy[i]});
  plan();
}

void EditableTaskGraph::change(std::span<const BoundChange> changes) {
  begin();
  for (const BoundChange c : changes) set_config(c);
  plan();
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
  if (std::exchange(affected_in_[tensor.index()], edit_) != edit_) tensors_.push_back(tensor);
}

void EditableTaskGraph::list_affected() {
  for (const OperatorId op : changed_) {
    for (const TensorUse& use : graph_.op(op).uses) {
      const OperatorId owner = owner_[use.tensor.index()];
      if (use.role != Role::Weight && use.role != Role::State) affect(use.tensor);
      if (!owner.valid()) continue;
      if (std::exchange(updated_in_[owner.index()], edit_) == edit_) continue;
      owners_.push_back(owner);
      for (const TensorId w : contents_.owned_weights(owner)) affect(w);
    }
  }
}

void EditableTaskGraph::plan() {
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    if (configs_before_[i]) count(*configs_before_[i], -1);
    count(*strategy_[changed_[i].index()], 1);
  }
  list_affected();
  for (const OperatorId owner : owners_) plan_updates(owner);
  for (std::size_t i = 0; i < tensors_.size(); ++i) plan_ways(i);
}

void EditableTaskGraph::plan_updates(OperatorId owner) {
  Updates& updates = updates_[owner.index()];
  updates_before_.push_back(updates);
  const OwnedUpdates& work = contents_.update_work(owner, strategy_);
  if (updates.work == &work) return;
  if (updates.work) count(*updates.work, -1);
  updates = {&work, {}};
  count(work, 1);
}

void EditableTaskGraph::plan_ways(std::size_t number) {
  const TensorId tensor = tensors_[number];
  if (number == ways_before_.size()) ways_before_.emplace_back();
  Ways &before = ways_before_[number], &after = ways_[tensor.index()];
  std::swap(before, after);
  after.num_forward = 0;
  after.backward.plan = after.sync.plan = nullptr;
  if (owner_[tensor.index()].valid()) {
    contents_.plan_sync(tensor, strategy_, after.sync);
  } else {
    after.num_forward = contents_.plan_forward(tensor, 0, strategy_, after.forward, 0);
    contents_.plan_backward(tensor, 0, strategy_, after.backward);
  }
  for (std::size_t i = 0; i < after.num_forward; ++i) count(after.forward[i], 1);
  for (std::size_t i = 0; i < before.num_forward; ++i) {
    count(before.forward[i], -1);
    before.forward[i].kept = false;
    for (std::size_t j = 0; j < after.num_forward; ++j) match(before.forward[i], after.forward[j]);
  }
  for (const auto& [old, now] :
       {std::pair(&before.backward, &after.backward), std::pair(&before.sync, &after.sync)}) {
    count(*old, -1), count(*now, 1);
    old->kept = false;
    match(*old, *now);
  }
}

void EditableTaskGraph::remove_operator(std::size_t number) {
  if (!configs_before_[number]) return;
  const BoundOperator& bound = *configs_before_[number];
  const OperatorTasks& tasks = tasks_before_[number];
  dag_.remove_tasks(tasks.forward, num_tasks(bound, bound.forward));
  dag_.remove_tasks(tasks.backward_input, num_tasks(bound, bound.backward_input));
  dag_.remove_tasks(tasks.backward_weight, num_tasks(bound, bound.backward_weight));
}

void EditableTaskGraph::remove_wiring(const Wiring& wiring) {
  if (wiring.plan && !wiring.kept) dag_.remove_tasks(wiring.first_task, wiring.plan->tasks.size());
}

void EditableTaskGraph::remove_tasks() {
  for (std::size_t i = 0; i < changed_.size(); ++i) remove_operator(i);
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    const Updates& before = updates_before_[i];
    if (before.work && before.work != updates_[owners_[i].index()].work)
      dag_.remove_tasks(before.first, before.work->devices.size());
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Ways& before = ways_before_[i];
    for (std::size_t w = 0; w < before.num_forward; ++w) remove_wiring(before.forward[w]);
    remove_wiring(before.backward);
    remove_wiring(before.sync);
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
  for (const OperatorId op : changed_) add_forward(op);
  for (auto op = changed_.rbegin(); op != changed_.rend(); ++op) add_backward(*op);
  for (const TensorId t : tensors_) {  // what is left: of tensors whose ends did not change
    for (std::size_t i = 0; i < ways_[t.index()].num_forward; ++i) add_wiring(ways_[t.index()].forward[i]);
    add_wiring(ways_[t.index()].backward);
    add_wiring(ways_[t.index()].sync);
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
      Ways& ways = ways_[use.tensor.index()];
      const std::size_t n = (use.role == Role::Output) == outputs ? ways.num_forward : 0;
      for (std::size_t i = 0; i < n; ++i) add_wiring(ways.forward[i]);
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
      if (use.role == role) add_wiring(ways_[use.tensor.index()].backward);
    }
  };
  const BoundOperator& bound = *strategy_[op.index()];
  OperatorTasks& tasks = tasks_[op.index()];
  add_ways(Role::Output);
  tasks.backward_input = add_pass(dag_, op, bound, TaskKind::BackwardInput, bound.backward_input, 0);
  tasks.backward_weight = add_pass(dag_, op, bound, TaskKind::BackwardWeight, bound.backward_weight, 0);
  add_ways(Role::Input);
}

// Unless they are there already.
void EditableTaskGraph::add_wiring(Wiring& wiring) {
  if (!wiring.plan || wiring.kept || wiring.first_task.valid() || wiring.plan->tasks.empty()) return;
  add_transfers(dag_, wiring, contents_.costs().topology().num_devices());
}

void EditableTaskGraph::list_readers(const Wiring& wiring) {
  readers_.clear();
  if (wiring.kind == TaskKind::GradientSync) {
    const Updates& updates = updates_[owner_[wiring.tensor.index()].index()];
    readers_.push_back({updates.first, updates.work->update_of_device, updates.first >= dag_.first_added()});
    return;
  }
  for (const UseRef use : wiring.destinations) {
    const OperatorTasks& tasks = tasks_[use.op.index()];
    const std::span<const std::int32_t> shards = strategy_[use.op.index()]->shard_of_device;
    const bool forward = wiring.kind == TaskKind::ForwardTransfer;
    for (const TaskId first :
         {forward ? tasks.forward : tasks.backward_input, forward ? TaskId() : tasks.backward_weight}) {
      if (first.valid()) readers_.push_back({first, shards, is_changed(use.op)});
    }
  }
}

// What is new: everything where the tasks are, else the edges of changed operators.
void EditableTaskGraph::connect_wiring(const Wiring& wiring) {
  list_readers(wiring);
  if (!wiring.kept) connect_transfers(dag_, wiring);
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    const OperatorId op = wiring.sources[s].op;
    const BoundOperator& bound = *strategy_[op.index()];
    const TaskId maker = making_tasks(wiring.kind, bound, tasks_[op.index()]);
    const bool all = !wiring.kept || is_changed(op);
    if (all) connect_source(dag_, wiring, wiring.source_terms[s], maker, bound.shard_of_device);
    for (const Reader& r : readers_) {
      if (all || r.changed)
        connect_local(dag_, *wiring.plan, maker, bound.shard_of_device, r.first, r.reader_of_device);
    }
  }
  for (const Reader& r : readers_) {
    if (!wiring.kept || r.changed) connect_readers(dag_, wiring, r.first, r.reader_of_device);
  }
}

// Of a wiring that is no more, the edges between operators that did not change: all others go with tasks.
void EditableTaskGraph::disconnect_wiring(const Wiring& wiring) {
  list_readers(wiring);
  EdgeRemover remover{dag_};
  for (const UseRef source : wiring.sources) {
    if (is_changed(source.op)) continue;
    const BoundOperator& bound = *strategy_[source.op.index()];
    const TaskId maker = making_tasks(wiring.kind, bound, tasks_[source.op.index()]);
    for (const Reader& r : readers_) {
      if (!r.changed)
        connect_local(remover, *wiring.plan, maker, bound.shard_of_device, r.first, r.reader_of_device);
    }
  }
}

void EditableTaskGraph::connect() {
  for (const OperatorId op : changed_) connect_operator(dag_, *strategy_[op.index()], tasks_[op.index()]);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Ways &before = ways_before_[i], &after = ways_[tensors_[i].index()];
    const auto disconnect = [&](const Wiring& w) {
      if (w.plan && !w.kept) disconnect_wiring(w);
    };
    const auto connect = [&](const Wiring& w) {
      if (w.plan) connect_wiring(w);
    };
    std::for_each_n(before.forward.begin(), before.num_forward, disconnect);
    std::for_each_n(after.forward.begin(), after.num_forward, connect);
    disconnect(before.backward), connect(after.backward);
    disconnect(before.sync), connect(after.sync);
  }
}

void EditableTaskGraph::keep() { dag_.keep(); }

void EditableTaskGraph::undo() {
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    strategy_[changed_[i].index()] = configs_before_[i];
    tasks_[changed_[i].index()] = tasks_before_[i];
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) updates_[owners_[i].index()] = updates_before_[i];
  for (std::size_t i = 0; i < tensors_.size(); ++i) std::swap(ways_[tensors_[i].index()], ways_before_[i]);
  std::swap(loads_, loads_before_);
  std::swap(allocated_, allocated_before_);
  dag_.undo();
}

void EditableTaskGraph::count(const Wiring& wiring, std::int64_t sign) {
  if (!wiring.plan) return;
  count(wiring.plan->loads, sign);
  if (wiring.kind == TaskKind::GradientSync) return;  // reduced in place
  for (const auto& [device, bytes] : wiring.plan->received) allocated_[device.index()] += sign * bytes;
}

void EditableTaskGraph::count(const BoundOperator& bound, std::int64_t sign) {
  count(bound.loads, sign);
  for (std::size_t k = 0; k < bound.memory.size(); ++k) {
    const ShardMemory& m = bound.memory[k];
    allocated_[bound.config.devices[k].index()] += sign * (m.outputs + m.saved + m.input_gradients);
  }
}

void EditableTaskGraph::count(const OwnedUpdates& work, std::int64_t sign) {
  for (std::size_t i = 0; i < work.devices.size(); ++i) {
    const WeightMemory& m = work.memory[i];
    loads_[work.devices[i].index()] += sign * work.durations[i];
    allocated_[work.devices[i].index()] += sign * (m.weights + m.gradients + m.optimizer_state);
  }
}

void EditableTaskGraph::count(std::span<const LaneUse> loads, std::int64_t sign) {
  for (const LaneUse& use : loads) loads_[use.lane.index()] += sign * use.hold;
}

}  // namespace pipesim
