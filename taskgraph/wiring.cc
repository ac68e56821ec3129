// How TaskGraphBuilder connects operators: transfers of activations and gradients, synchronisation of
// weights.
#include <algorithm>

#include "sim/base/errors.h"
#include "taskgraph/expansion.h"
#include "taskgraph/task_graph_builder.h"

namespace pipesim {
namespace {

constexpr Bytes kUncut{INT64_MAX / 2};

Bytes element_of(const Tensor& tensor) { return Bytes(bytes_per_element(tensor.type)); }

LayoutId data_layout(UseRef use, const BoundStrategy& strategy) {
  return strategy[use.op.index()]->data_layout[static_cast<std::size_t>(use.use)];
}

LayoutId gradient_layout(UseRef use, const BoundStrategy& strategy) {
  return strategy[use.op.index()]->gradient_layout[static_cast<std::size_t>(use.use)];
}

UseRef producing_use(const OperatorGraph& graph, TensorId tensor) {
  const OperatorId op = graph.tensor(tensor).producer;
  const std::vector<TensorUse>& uses = graph.op(op).uses;
  const auto it = std::find_if(uses.begin(), uses.end(), [&](const TensorUse& u) {
    return u.role == Role::Output && u.tensor == tensor;
  });
  return {op, static_cast<std::int32_t>(it - uses.begin())};
}

// The layout's position among the terms; appended if it is new.
std::int32_t term_of(LayoutId layout, std::vector<LayoutId>& terms) {
  const auto at = static_cast<std::size_t>(std::find(terms.begin(), terms.end(), layout) - terms.begin());
  if (at == terms.size()) terms.push_back(layout);
  return static_cast<std::int32_t>(at);
}

void reset(Wiring& w, TaskKind kind, TensorId tensor, std::int32_t microbatch) {
  w.kind = kind;
  w.tensor = tensor;
  w.microbatch = microbatch;
  w.ordinal = 0;
  w.plan = nullptr;
  w.first_task = {};
  w.kept = false;
  w.sources.clear();
  w.destinations.clear();
  w.source_terms.clear();
}

}  // namespace

bool TaskGraphBuilder::makes_gradient(UseRef ref) const {
  const TensorUse& use = graph_.op(ref.op).uses[static_cast<std::size_t>(ref.use)];
  const BackwardNeed& need = backward_[ref.op.index()];
  if (use.role == Role::Weight) return need.weight_pass || need.input_pass;
  return use.role == Role::Input && need.input_pass && graph_.wants_gradient(use.tensor);
}

std::vector<LayoutId> TaskGraphBuilder::terms_of(const Wiring& wiring, const BoundStrategy& strategy) const {
  std::vector<LayoutId> terms;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    if (static_cast<std::size_t>(wiring.source_terms[s]) < terms.size()) continue;
    terms.push_back(wiring.kind == TaskKind::ForwardTransfer ? data_layout(wiring.sources[s], strategy)
                                                             : gradient_layout(wiring.sources[s], strategy));
  }
  return terms;
}

DataType TaskGraphBuilder::type_of(const Wiring& wiring) const {
  return wiring.kind == TaskKind::GradientSync ? options_.gradient_type : graph_.tensor(wiring.tensor).type;
}

std::vector<Redistribution> TaskGraphBuilder::redistributions_of(const Wiring& wiring,
                                                                 const BoundStrategy& strategy) {
  return pipesim::redistributions_of(terms_of(wiring, strategy), wiring.plan->target,
                                     bytes_per_element(type_of(wiring)), wiring.plan->term_by_term, layouts_,
                                     prices_);
}

// From the first to before the second.
std::pair<std::int32_t, std::int32_t> TaskGraphBuilder::source_microbatches(const Wiring& wiring) const {
  if (wiring.microbatch < 0) return {0, options_.microbatches};
  return {wiring.microbatch, wiring.microbatch + 1};
}

const CommunicationPlan& TaskGraphBuilder::transfer_plan(std::span<const LayoutId> terms, LayoutId target,
                                                         Bytes element) {
  key_.assign({target.value, static_cast<std::int32_t>(element.value)});
  for (const LayoutId id : terms) key_.push_back(id.value);
  std::unique_ptr<CommunicationPlan>& slot = transfers_[key_];
  if (!slot) {
    slot = std::make_unique<CommunicationPlan>(
        plan_communication(terms, target, element.value, kUncut, layouts_, prices_));
    kept_tasks_ += slot->tasks.size();
  }
  return *slot;
}

void TaskGraphBuilder::add_transfers(Wiring& wiring) {
  pipesim::add_transfers(out_->dag, wiring, costs_.topology().num_devices());
  connect_transfers(out_->dag, wiring);
  if (!labels_) return;
  for (const CommunicationTask& t : wiring.plan->tasks) {
    const bool send = t.kind == Collective::Send;
    out_->labels.push_back({wiring.kind, t.kind, graph_.tensor(wiring.tensor).producer, wiring.tensor,
                            t.group.front(), send ? t.group.back() : DeviceId(),
                            static_cast<std::int32_t>(t.group.size()), std::max(t.piece, t.round), t.size,
                            labelled(wiring.microbatch)});
  }
}

void TaskGraphBuilder::connect_sources(const Wiring& wiring, const BoundStrategy& strategy) {
  const auto [first_microbatch, end_microbatch] = source_microbatches(wiring);
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    const OperatorId op = wiring.sources[s].op;
    const BoundOperator& bound = *strategy[op.index()];
    for (std::int32_t m = first_microbatch; m < end_microbatch; ++m) {
      connect_source(out_->dag, wiring, wiring.source_terms[s],
                     making_tasks(wiring.kind, bound, tasks_of(op, m)), bound.shard_of_device);
    }
  }
}

// Edges to the tasks first_reader + shard: from the transfers that their devices receive, and from the
// sources whose data lies there already.
void TaskGraphBuilder::connect_readers(const Wiring& wiring, TaskId first_reader,
                                       std::span<const std::int32_t> reader_of_device,
                                       const BoundStrategy& strategy) {
  pipesim::connect_readers(out_->dag, wiring, first_reader, reader_of_device);
  const auto [first_microbatch, end_microbatch] = source_microbatches(wiring);
  for (const UseRef source : wiring.sources) {
    const BoundOperator& bound = *strategy[source.op.index()];
    for (std::int32_t m = first_microbatch; m < end_microbatch; ++m) {
      connect_local(out_->dag, *wiring.plan, making_tasks(wiring.kind, bound, tasks_of(source.op, m)),
                    bound.shard_of_device, first_reader, reader_of_device);
    }
  }
}

std::size_t TaskGraphBuilder::plan_forward(TensorId tensor, std::int32_t microbatch,
                                           const BoundStrategy& strategy, std::vector<Wiring>& out,
                                           std::size_t first) {
  std::size_t end = first;
  if (!graph_.tensor(tensor).producer.valid()) return end;
  const UseRef producer = producing_use(graph_, tensor);
  const auto consumers = graph_.consumers(tensor);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const LayoutId target = data_layout(consumers[i], strategy);
    std::size_t w = first;
    while (w < end && out[w].plan->target != target) ++w;
    if (w == end) {
      if (end++ == out.size()) out.emplace_back();
      reset(out[w], TaskKind::ForwardTransfer, tensor, microbatch);
      out[w].ordinal = static_cast<std::int32_t>(i);
      out[w].sources.push_back(producer);
      out[w].source_terms.push_back(0);
      terms_.assign(1, data_layout(producer, strategy));
      out[w].plan = &transfer_plan(terms_, target, element_of(graph_.tensor(tensor)));
    }
    out[w].destinations.push_back(consumers[i]);
  }
  return end;
}

// The consumers that make a gradient, and the terms in which they make it.
void TaskGraphBuilder::list_gradients(Wiring& out, const BoundStrategy& strategy) {
  terms_.clear();
  for (const UseRef c : graph_.consumers(out.tensor)) {
    if (!makes_gradient(c)) continue;
    out.sources.push_back(c);
    out.source_terms.push_back(term_of(gradient_layout(c, strategy), terms_));
  }
}

bool TaskGraphBuilder::plan_backward(TensorId tensor, std::int32_t microbatch, const BoundStrategy& strategy,
                                     Wiring& out) {
  reset(out, TaskKind::BackwardTransfer, tensor, microbatch);
  if (!graph_.tensor(tensor).producer.valid()) return false;
  const UseRef producer = producing_use(graph_, tensor);
  const BackwardNeed& need = backward_[producer.op.index()];
  if (!need.input_pass && !need.weight_pass) return false;
  list_gradients(out, strategy);
  if (out.sources.empty()) return false;
  out.destinations.push_back(producer);
  out.plan = &transfer_plan(terms_, gradient_layout(producer, strategy), element_of(graph_.tensor(tensor)));
  return true;
}

void TaskGraphBuilder::plan_sync(TensorId weight, const BoundStrategy& strategy, Wiring& out) {
  reset(out, TaskKind::GradientSync, weight, -1);
  list_gradients(out, strategy);
  out.plan = &weight_sync(weight, strategy).plan;
}

void TaskGraphBuilder::wire_forward(TensorId tensor, const BoundStrategy& strategy) {
  const std::size_t first = num_wirings_;
  num_wirings_ = plan_forward(tensor, microbatch_, strategy, wirings_, first);
  for (std::size_t w = first; w < num_wirings_; ++w) {
    add_transfers(wirings_[w]);
    connect_sources(wirings_[w], strategy);
    for (const UseRef c : wirings_[w].destinations) {
      connect_readers(wirings_[w], tasks_of(c.op, microbatch_).forward,
                      strategy[c.op.index()]->shard_of_device, strategy);
    }
  }
}

Wiring& TaskGraphBuilder::next_wiring() {
  if (num_wirings_ == wirings_.size()) wirings_.emplace_back();
  return wirings_[num_wirings_];
}

void TaskGraphBuilder::wire_backward(TensorId tensor, const BoundStrategy& strategy) {
  Wiring& wiring = next_wiring();
  if (!plan_backward(tensor, microbatch_, strategy, wiring)) return;
  ++num_wirings_;
  add_transfers(wiring);
  connect_sources(wiring, strategy);
  const OperatorId producer = wiring.destinations.front().op;
  const OperatorTasks& tasks = tasks_of(producer, microbatch_);
  for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
    if (first.valid()) connect_readers(wiring, first, strategy[producer.index()]->shard_of_device, strategy);
  }
}

const WeightSync& TaskGraphBuilder::weight_sync(TensorId weight, const BoundStrategy& strategy) {
  std::vector<LayoutId> needed;
  terms_.clear();
  for (const UseRef use : graph_.consumers(weight)) {
    term_of(data_layout(use, strategy), needed);
    if (makes_gradient(use)) term_of(gradient_layout(use, strategy), terms_);
  }
  const std::int64_t element = bytes_per_element(options_.gradient_type);
  key_.assign(1, static_cast<std::int32_t>(needed.size()));
  for (const LayoutId id : needed) key_.push_back(id.value);
  for (const LayoutId id : terms_) key_.push_back(id.value);
  std::unique_ptr<WeightSync>& slot = syncs_[key_];
  if (!slot) {
    std::vector<const Layout*> parts;
    for (const LayoutId id : needed) parts.push_back(&layouts_[id]);
    const LayoutId home = layouts_.intern(union_of(parts));
    slot = std::make_unique<WeightSync>();
    slot->home = home;
    if (!terms_.empty()) {
      slot->plan = plan_communication(terms_, home, element, options_.gradient_piece, layouts_, prices_);
      kept_tasks_ += slot->plan.tasks.size();
    }
  }
  return *slot;
}

const OwnedUpdates& TaskGraphBuilder::update_work(OperatorId owner, const BoundStrategy& strategy) {
  std::vector<std::pair<TensorId, LayoutId>> homes;
  for (const TensorId w : owned_weights_[owner.index()]) homes.emplace_back(w, weight_sync(w, strategy).home);
  key_.assign(1, owner.value);
  for (const auto& [weight, home] : homes) key_.push_back(home.value);
  std::unique_ptr<OwnedUpdates>& slot = updates_[key_];
  if (slot) return *slot;
  slot = std::make_unique<OwnedUpdates>();
  std::vector<std::int64_t> elements(costs_.topology().num_devices(), 0);
  for (const auto& [weight, home] : homes) {
    for (const LayoutEntry& e : layouts_[home].entries())
      elements[e.device.index()] += layouts_[home].box(e).elements();
  }
  slot->update_of_device.assign(elements.size(), -1);
  const DataType type = graph_.tensor(homes.front().first).type;
  for (std::size_t d = 0; d < elements.size(); ++d) {
    if (elements[d] == 0) continue;
    const DeviceId device(d);
    slot->update_of_device[d] = static_cast<std::int32_t>(slot->devices.size());
    slot->devices.push_back(device);
    slot->durations.push_back(
        to_nanoseconds(costs_.update_time(elements[d], type, options_.optimizer, device)));
    slot->memory.push_back(
        CostModel::weight_memory(elements[d], type, options_.gradient_type, options_.optimizer));
  }
  return *slot;
}

std::vector<WeightMemory> TaskGraphBuilder::permanent_memory(const BoundStrategy& strategy) {
  std::vector<WeightMemory> memory(costs_.topology().num_devices());
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (owned_weights_[i].empty()) continue;
    const OwnedUpdates& work = update_work(OperatorId(i), strategy);
    for (std::size_t j = 0; j < work.devices.size(); ++j) {
      WeightMemory& sum = memory[work.devices[j].index()];
      sum.weights += work.memory[j].weights;
      sum.gradients += work.memory[j].gradients;
      sum.optimizer_state += work.memory[j].optimizer_state;
    }
  }
  for (const TensorId w : frozen_weights_) {
    const Layout& home = layouts_[weight_sync(w, strategy).home];
    for (const LayoutEntry& e : home.entries()) {
      memory[e.device.index()].weights += home.box(e).elements() * element_of(graph_.tensor(w));
    }
  }
  return memory;
}

void TaskGraphBuilder::update_weights(OperatorId owner, const BoundStrategy& strategy) {
  if (owned_weights_[owner.index()].empty()) return;
  const OwnedUpdates& work = update_work(owner, strategy);
  OperatorTasks& tasks = tasks_[owner.index()];
  tasks.update = TaskId(out_->dag.num_tasks());
  tasks.update_devices = work.devices;
  for (std::size_t i = 0; i < work.devices.size(); ++i) {
    const DeviceId d = work.devices[i];
    out_->dag.add_task(compute_key(TaskKind::Update, 0, owner, 0, d), work.durations[i], LaneId(d.value));
    if (labels_)
      out_->labels.push_back({TaskKind::Update, Collective::Send, owner, {}, d, d, 1, 0, Bytes(0)});
  }
  for (const TensorId w : owned_weights_[owner.index()]) sync_weight(w, owner, strategy);
}

void TaskGraphBuilder::sync_weight(TensorId weight, OperatorId owner, const BoundStrategy& strategy) {
  Wiring& wiring = next_wiring();
  ++num_wirings_;
  plan_sync(weight, strategy, wiring);
  add_transfers(wiring);
  connect_sources(wiring, strategy);
  connect_readers(wiring, tasks_[owner.index()].update, update_work(owner, strategy).update_of_device,
                  strategy);
}

}  // namespace pipesim
