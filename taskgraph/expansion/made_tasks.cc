// How TaskGraphBuilder connects operators: transfers of activations and gradients, synchronisation of
// weights.
#include <algorithm>
#include <array>

#include "sim/base/errors.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/folding.h"
#include "taskgraph/expansion/task_graph_builder.h"

namespace pipesim {
namespace {

constexpr Bytes kUncut{INT64_MAX / 2};

// The layout's position among the terms; appended if it is new.
std::int32_t term_of(LayoutId layout, LayoutIds& terms) {
  const auto at = static_cast<std::size_t>(std::find(terms.begin(), terms.end(), layout) - terms.begin());
  if (at == terms.size()) terms.push_back(layout);
  return static_cast<std::int32_t>(at);
}

// Through the operator's stage.
std::int32_t ways_through(const TaskGraphBuilder& builder, OperatorId op) {
  return builder.ways() == 1 ? 1 : ways_of(*builder.options().pipeline, builder.stage_of(op));
}

// A last change may take in fewer microbatches than there are replicas: those without one take part when they
// have made the change before, whose updates begin with the task.
void connect_idle_replicas(TaskDag& dag, const Wiring& wiring, std::int32_t microbatches, TaskId before,
                           std::span<const std::int32_t> update_of_device) {
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    if (wiring.microbatch_of(s) >= microbatches)
      connect_source(dag, *wiring.plan, wiring.first_task, wiring.source_terms[s], before, update_of_device);
  }
}

// A plan, or updates, of the devices that the graph is of.
template <class Work>
const Work& folded_by(const Folding* folding, const Work& work) {
  return folding ? folding->folded(work) : work;
}

}  // namespace

std::vector<LayoutId> TaskGraphBuilder::terms_of(const Wiring& wiring, const BoundStrategy& strategy) {
  std::vector<LayoutId> terms;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    if (static_cast<std::size_t>(wiring.source_terms[s]) < terms.size()) continue;
    const BoundStrategy& used = strategy_of(wiring.microbatch_of(s), strategy);
    terms.push_back(moves_activations(wiring.kind) ? data_layout(wiring.sources[s], used)
                                                   : gradient_layout(wiring.sources[s], used));
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
                                     prices_.local());
}

// From the first to before the second.
std::pair<std::int32_t, std::int32_t> TaskGraphBuilder::microbatches(const Wiring& wiring,
                                                                     OperatorId source) const {
  if (wiring.microbatch >= 0 && wiring.kind == TaskKind::GradientSync) {
    const std::int32_t end = wiring.microbatch + versions_.every(stage_of(source));
    return {wiring.microbatch, std::min(end, built_microbatches_)};
  }
  if (wiring.microbatch >= 0) return {wiring.microbatch, wiring.microbatch + 1};
  if (!folding_) return {0, built_microbatches_};
  const auto [input, weight] = last_backward_[static_cast<std::size_t>(stage_of(source))];
  const std::int32_t last = tasks_of(source).backward_weight.valid() ? weight : input;
  return {last, last + 1};
}

void TaskGraphBuilder::list_gradient_terms(TensorId tensor, const BoundStrategy& strategy, LayoutIds& out) {
  out.clear();
  // Weights are used by microbatches whichever way they go.
  const std::int32_t all = graph_.tensor(tensor).kind == TensorKind::Weight ? ways_ : 1;
  for (std::int32_t way = 0; way < all; ++way) {
    const BoundStrategy& used = all == 1 ? strategy : strategy_of(way, strategy);
    for (const UseRef maker : backward_.gradient_makers(tensor)) {
      if (way < ways_through(*this, maker.op)) term_of(gradient_layout(maker, used), out);
    }
  }
}

const CommunicationPlan& TaskGraphBuilder::transfer_plan(TensorId tensor, std::span<const LayoutId> terms,
                                                         LayoutId target) {
  return plans_.between(terms, target, setting(tensor, TaskKind::ForwardTransfer));
}

const CommunicationPlan& TaskGraphBuilder::sync_plan(TensorId weight, const BoundStrategy& strategy) {
  LayoutIds terms;
  list_gradient_terms(weight, strategy, terms);
  return plans_.between(terms, home_of(weight, strategy), setting(weight, TaskKind::GradientSync));
}

CommunicationPlans::Setting TaskGraphBuilder::setting(TensorId tensor, TaskKind kind) const {
  if (kind == TaskKind::GradientSync)
    return {bytes_per_element(options_.gradient_type), options_.gradient_piece};
  return {bytes_per_element(graph_.tensor(tensor).type), kUncut};
}

LayoutId TaskGraphBuilder::home_of(TensorId weight, const BoundStrategy& strategy) {
  LayoutIds needed;
  for (std::int32_t way = 0; way < ways_; ++way) {
    const BoundStrategy& used = strategy_of(way, strategy);
    for (const UseRef use : graph_.consumers(weight)) {
      if (way < ways_through(*this, use.op)) term_of(data_layout(use, used), needed);
    }
  }
  return plans_.home(needed);
}

void TaskGraphBuilder::add_transfers(Wiring& wiring) {
  const std::uint64_t key = transfer_key_high(wiring.kind, std::max(0, wiring.microbatch), wiring.tensor,
                                              static_cast<std::uint64_t>(wiring.ordinal));
  wiring.first_task = pipesim::add_transfers(out_->dag, *wiring.plan, key);
  connect_transfers(out_->dag, *wiring.plan, wiring.first_task);
  if (!labels_) return;
  for (const CommunicationTask& t : wiring.plan->tasks) {
    const bool send = t.kind == Collective::Send;
    out_->labels.push_back({wiring.kind, t.kind, graph_.tensor(wiring.tensor).producer, wiring.tensor,
                            t.group.front(), send ? t.group.back() : DeviceId(),
                            static_cast<std::int32_t>(t.group.size()), std::max(t.piece, t.round), t.size,
                            labelled(wiring.microbatch)});
  }
}

// visit(number, operator, first task that makes its data) of each source in each microbatch. The strategy is
// that of a transfer's microbatch; or of a weight, where sources stand once for each way of microbatches
// through their stage.
template <class Visit>
void TaskGraphBuilder::visit_sources(const Wiring& wiring, const BoundStrategy& strategy, Visit visit) {
  const bool by_way = ways_ > 1 && wiring.kind == TaskKind::GradientSync;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    const OperatorId op = wiring.sources[s].op;
    const auto [first_microbatch, end_microbatch] = microbatches(wiring, op);
    for (std::int32_t m = first_microbatch; m < end_microbatch; ++m) {
      if (by_way && m % wiring.ways != wiring.way_of(s)) continue;
      const BoundOperator& bound = *(by_way ? strategy_of(m, strategy) : strategy)[op.index()];
      visit(s, bound, making_tasks(wiring.kind, bound, tasks_of(op, m)));
    }
  }
}

void TaskGraphBuilder::connect_sources(const Wiring& wiring, const BoundStrategy& strategy) {
  visit_sources(wiring, strategy, [&](std::size_t s, const BoundOperator& bound, TaskId maker) {
    connect_source(out_->dag, *wiring.plan, wiring.first_task, wiring.source_terms[s], maker,
                   bound.shard_of_device);
  });
}

// Edges to the tasks first_reader + shard: from the transfers that their devices receive, and from the
// sources whose data lies there already.
void TaskGraphBuilder::connect_readers(const Wiring& wiring, TaskId first_reader,
                                       std::span<const std::int32_t> reader_of_device,
                                       const BoundStrategy& strategy) {
  pipesim::connect_readers(out_->dag, *wiring.plan, wiring.first_task, first_reader, reader_of_device);
  visit_sources(wiring, strategy, [&](std::size_t, const BoundOperator& bound, TaskId maker) {
    connect_local(out_->dag, *wiring.plan, maker, bound.shard_of_device, first_reader, reader_of_device);
  });
}

// Its memory is used again.
Wiring& TaskGraphBuilder::begin_wiring(TaskKind kind, TensorId tensor) {
  if (num_wirings_ == wirings_.size()) wirings_.emplace_back();
  Wiring& w = wirings_[num_wirings_++];
  w.kind = kind;
  w.tensor = tensor;
  w.microbatch = kind == TaskKind::GradientSync ? -1 : microbatch_;
  w.ordinal = 0;
  w.plan = nullptr;
  w.first_task = {};
  w.sources.clear();
  w.destinations.clear();
  w.source_terms.clear();
  w.ways = 1;
  return w;
}

// From the producer to all consumers: one for each layout that is wanted.
void TaskGraphBuilder::plan_forward(TensorId tensor, const BoundStrategy& strategy) {
  const UseRef producer = backward_.producing_use(tensor);
  if (!producer.op.valid()) return;
  const std::size_t first = num_wirings_;
  const auto consumers = graph_.consumers(tensor);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const LayoutId target = data_layout(consumers[i], strategy);
    std::size_t w = first;
    while (w < num_wirings_ && wirings_[w].plan->target != target) ++w;
    if (w == num_wirings_) {
      Wiring& wiring = begin_wiring(TaskKind::ForwardTransfer, tensor);
      wiring.ordinal = static_cast<std::int32_t>(i);
      wiring.sources.push_back(producer);
      wiring.source_terms.push_back(0);
      const LayoutId source = data_layout(producer, strategy);
      wiring.plan = &folded_by(folding_, transfer_plan(tensor, std::span(&source, 1), target));
    }
    wirings_[w].destinations.push_back(consumers[i]);
  }
}

void TaskGraphBuilder::wire_forward(TensorId tensor, const BoundStrategy& strategy) {
  const std::size_t first = num_wirings_;
  plan_forward(tensor, strategy);
  for (std::size_t w = first; w < num_wirings_; ++w) {
    add_transfers(wirings_[w]);
    connect_sources(wirings_[w], strategy);
    for (const UseRef c : wirings_[w].destinations) {
      connect_readers(wirings_[w], tasks_of(c.op, microbatch_).forward,
                      strategy[c.op.index()]->shard_of_device, strategy);
    }
  }
  const std::size_t end = num_wirings_;
  if (!recomputation_.any() || first == end || !recomputation_.again(backward_.producing_use(tensor).op))
    return;
  for (std::size_t w = first; w < end; ++w) wire_again(w, strategy);
}

// The way of what was made again, to those that read it.
void TaskGraphBuilder::wire_again(std::size_t forward_wiring, const BoundStrategy& strategy) {
  const Wiring& forward = wirings_[forward_wiring];
  std::vector<UseRef> readers;
  std::ranges::copy_if(forward.destinations, std::back_inserter(readers),
                       [&](UseRef use) { return recomputation_.reads_again(use); });
  if (readers.empty()) return;
  Wiring& wiring = begin_wiring(TaskKind::RecomputeTransfer, forward.tensor);
  const Wiring& once = wirings_[forward_wiring];  // where it lies now
  wiring.ordinal = once.ordinal;
  wiring.plan = once.plan;
  wiring.sources = once.sources;
  wiring.source_terms = once.source_terms;
  wiring.destinations = std::move(readers);
  add_transfers(wiring);
  connect_sources(wiring, strategy);
  for (const UseRef c : wiring.destinations) {
    const OperatorTasks& tasks = tasks_of(c.op, microbatch_);
    // The backward of what is run again waits for that.
    const std::array<TaskId, 2> backward{tasks.backward_input, tasks.backward_weight},
        again{tasks.recompute, {}};
    for (const TaskId first : tasks.recompute.valid() ? again : backward) {
      if (first.valid()) connect_readers(wiring, first, strategy[c.op.index()]->shard_of_device, strategy);
    }
  }
}

// The consumers that make a gradient, and the terms in which they make it.
void TaskGraphBuilder::list_sources(Wiring& wiring, const BoundStrategy& strategy) {
  terms_.clear();
  const std::span<const UseRef> makers = backward_.gradient_makers(wiring.tensor);
  wiring.ways = wiring.kind == TaskKind::GradientSync ? ways_through(*this, makers.front().op) : 1;
  for (std::int32_t way = 0; way < wiring.ways; ++way) {
    const BoundStrategy& used = wiring.ways == 1 ? strategy : strategy_of(way, strategy);
    for (const UseRef maker : makers) {
      wiring.sources.push_back(maker);
      wiring.source_terms.push_back(term_of(gradient_layout(maker, used), terms_));
    }
  }
}

void TaskGraphBuilder::wire_backward(TensorId tensor, const BoundStrategy& strategy) {
  if (!backward_.has_backward(tensor)) return;
  Wiring& wiring = begin_wiring(TaskKind::BackwardTransfer, tensor);
  list_sources(wiring, strategy);
  const UseRef producer = backward_.producing_use(tensor);
  wiring.destinations.push_back(producer);
  wiring.plan = &folded_by(folding_, transfer_plan(tensor, terms_, gradient_layout(producer, strategy)));
  add_transfers(wiring);
  connect_sources(wiring, strategy);
  const OperatorTasks& tasks = tasks_of(producer.op, microbatch_);
  for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
    if (first.valid())
      connect_readers(wiring, first, strategy[producer.op.index()]->shard_of_device, strategy);
  }
}

const OwnedUpdates& TaskGraphBuilder::update_work(OperatorId owner, const BoundStrategy& strategy) {
  const std::span<const TensorId> weights = backward_.owned_weights(owner);
  const DataType type = graph_.tensor(weights.front()).type;
  LayoutIds homes;
  for (const TensorId w : weights) homes.push_back(home_of(w, strategy));
  return updates_.of(homes, type);
}

std::vector<WeightMemory> TaskGraphBuilder::permanent_memory(const BoundStrategy& strategy) {
  std::vector<WeightMemory> memory(costs_.topology().num_devices());
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (backward_.owned_weights(OperatorId(i)).empty()) continue;
    const OwnedUpdates& work = update_work(OperatorId(i), strategy);
    for (std::size_t j = 0; j < work.devices.size(); ++j) {
      WeightMemory& sum = memory[work.devices[j].index()];
      sum.weights += work.memory[j].weights;
      sum.gradients += work.memory[j].gradients;
      sum.optimizer_state += work.memory[j].optimizer_state;
    }
  }
  for (const TensorId w : backward_.frozen_weights()) {
    const Layout& home = layouts_[home_of(w, strategy)];
    const Bytes element(bytes_per_element(graph_.tensor(w).type));
    for (const LayoutEntry& e : home.entries())
      memory[e.device.index()].weights += home.box(e).elements() * element;
  }
  return memory;
}

void TaskGraphBuilder::update_weights(OperatorId owner, const BoundStrategy& strategy) {
  if (backward_.owned_weights(owner).empty()) return;
  const OwnedUpdates& work = folded_by(folding_, update_work(owner, strategy));
  const std::int32_t every = versions_.several() ? versions_.every(stage_of(owner)) : 1;
  const std::int32_t first = versions_.several() ? microbatch_ / every * every : 0;
  OperatorTasks& tasks = tasks_[static_cast<std::size_t>(first) * graph_.operators().size() + owner.index()];
  tasks.update = TaskId(out_->dag.num_tasks());
  tasks.update_devices = work.devices;
  for (std::size_t i = 0; i < work.devices.size(); ++i) {
    const DeviceId d = work.devices[i];
    out_->dag.add_task(compute_key(TaskKind::Update, first, owner, 0, d), work.durations[i], LaneId(d.value));
    const std::int32_t number = versions_.several() ? labelled(first) : -1;
    if (labels_)
      out_->labels.push_back({TaskKind::Update, Collective::Send, owner, {}, d, d, 1, 0, Bytes(0), number});
  }
  for (const TensorId w : backward_.owned_weights(owner)) {
    Wiring& wiring = begin_wiring(TaskKind::GradientSync, w);
    if (versions_.several()) wiring.microbatch = first;
    list_sources(wiring, strategy);
    wiring.plan = &folded_by(folding_, sync_plan(w, strategy));
    add_transfers(wiring);
    connect_sources(wiring, strategy);
    if (first > 0) {
      connect_idle_replicas(out_->dag, wiring, built_microbatches_, tasks_of(owner, first - every).update,
                            work.update_of_device);
    }
    connect_readers(wiring, tasks.update, work.update_of_device, strategy);
  }
}

}  // namespace pipesim
