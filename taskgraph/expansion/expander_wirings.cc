#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "taskgraph/binding/product_overlap.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

// The layout's position among the terms; appended if it is new.
std::int32_t term_of(LayoutId layout, LayoutIds& terms) {
  const auto at = static_cast<std::size_t>(std::find(terms.begin(), terms.end(), layout) - terms.begin());
  if (at == terms.size()) terms.push_back(layout);
  return static_cast<std::int32_t>(at);
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

// The operator whose backward makes the last addend.
std::size_t last_maker(const Wiring& wiring) {
  return std::ranges::min_element(wiring.sources, {}, &UseRef::op)->op.index();
}

// The plan, or the updates, on the devices that the folding keeps.
template <class Work>
const Work& folded_by(const Folding* folding, const Work& work) {
  return folding ? folding->folded(work) : work;
}

}  // namespace

// Returns the first microbatch, and the one behind the last.
std::pair<std::int32_t, std::int32_t> StrategyExpander::microbatches_of(const Wiring& wiring,
                                                                        std::size_t number) const {
  const OperatorId source = wiring.sources[number].op;
  if (wiring.microbatch >= 0 && wiring.kind == TaskKind::GradientSync && contents_.versions().several()) {
    const std::int32_t end = wiring.microbatch + contents_.versions().every(contents_.stage_of(source));
    return {wiring.microbatch, std::min(end, out_.microbatches_)};
  }
  if (wiring.microbatch >= 0) return {wiring.microbatch, wiring.microbatch + 1};
  if (!folding_) return {0, out_.microbatches_};
  const auto [input, weight] = last_backward_[static_cast<std::size_t>(
      contents_.stage_of(source) * contents_.ways() + wiring.way_of(number))];
  const std::int32_t last = out_.tasks_of(source).backward_weight.valid() ? weight : input;
  return {last, last + 1};
}

// Whether it carries messages between stages, during which their devices compute nothing.
bool StrategyExpander::blocks_stages(const Wiring& wiring) const {
  if (!contents_.messages_block() || wiring.sources.empty() || wiring.kind == TaskKind::GradientSync)
    return false;
  const std::int32_t stage = contents_.stage_of(wiring.sources.front().op);
  const auto elsewhere = [&](UseRef use) { return contents_.stage_of(use.op) != stage; };
  return std::ranges::any_of(wiring.sources, elsewhere) ||
         std::ranges::any_of(wiring.destinations, elsewhere);
}

void StrategyExpander::add_transfers(Wiring& wiring) {
  const std::uint64_t key = transfer_key_high(wiring.kind, std::max(0, wiring.microbatch), wiring.tensor,
                                              static_cast<std::uint64_t>(wiring.ordinal));
  wiring.blocks = blocks_stages(wiring);
  const bool dispatched = wiring.kind != TaskKind::GradientSync && wiring.kind != TaskKind::WeightGather &&
                          contents_.is_dispatched(wiring.tensor);
  wiring.alone = dispatched && !contents_.pairs_passes();
  wiring.first_task =
      pipesim::add_transfers(dag(), *wiring.plan, key, {wiring.share, wiring.blocks, wiring.alone});
  connect_transfers(dag(), *wiring.plan, wiring.first_task);
  if (!labels_) return;
  for (const CommunicationTask& t : wiring.plan->tasks) {
    const bool send = t.kind == Collective::Send;
    out_.graph_.labels.push_back({wiring.kind, t.kind, graph_.tensor(wiring.tensor).producer, wiring.tensor,
                                  t.group.front(), send ? t.group.back() : DeviceId(),
                                  static_cast<std::int32_t>(t.group.size()), std::max(t.piece, t.round),
                                  t.size, labelled(wiring.microbatch)});
  }
}

// visit(number, operator, first task that makes its data) of each source in each microbatch. Sources of a
// weight's gradient stand once for each way of microbatches through their stage.
template <class Visit>
void StrategyExpander::visit_sources(const Wiring& wiring, Visit visit) {
  const bool by_way = contents_.ways() > 1 && wiring.kind == TaskKind::GradientSync;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    const OperatorId op = wiring.sources[s].op;
    const auto [first_microbatch, end_microbatch] = microbatches_of(wiring, s);
    for (std::int32_t m = first_microbatch; m < end_microbatch; ++m) {
      if (by_way && m % wiring.ways != wiring.way_of(s)) continue;
      const BoundOperator& bound =
          *(by_way ? contents_.strategy_of(m, out_.strategy_) : strategy_of(wiring.kind))[op.index()];
      visit(s, bound, making_tasks(wiring.kind, bound, out_.tasks_of(op, m)));
    }
  }
}

void StrategyExpander::connect_sources(const Wiring& wiring) {
  visit_sources(wiring, [&](std::size_t s, const BoundOperator& bound, TaskId maker) {
    connect_source(dag(), *wiring.plan, wiring.first_task, wiring.source_terms[s], maker,
                   bound.shard_of_device);
  });
}

void StrategyExpander::connect_readers(const Wiring& wiring, TaskId first_reader,
                                       std::span<const std::int32_t> reader_of_device) {
  pipesim::connect_readers(dag(), *wiring.plan, wiring.first_task, first_reader, reader_of_device);
  visit_sources(wiring, [&](std::size_t, const BoundOperator& bound, TaskId maker) {
    connect_local(dag(), *wiring.plan, maker, bound.shard_of_device, first_reader, reader_of_device);
  });
}

// The memory of wirings is used again.
Wiring& StrategyExpander::begin_wiring(TaskKind kind, TensorId tensor) {
  if (out_.num_wirings_ == out_.wirings_.size()) out_.wirings_.emplace_back();
  Wiring& w = out_.wirings_[out_.num_wirings_++];
  w.kind = kind;
  w.tensor = tensor;
  w.microbatch = kind == TaskKind::GradientSync ? -1 : microbatch_;
  w.read_in = ReadIn::BothPasses;
  w.ordinal = 0;
  w.plan = nullptr;
  w.first_task = {};
  w.share = 1;
  w.blocks = w.alone = false;
  w.sources.clear();
  w.destinations.clear();
  w.source_terms.clear();
  w.ways = 1;
  return w;
}

// Makes transfers from the producer to all consumers: one for each layout that is wanted.
void StrategyExpander::plan_forward(TensorId tensor) {
  const UseRef producer = contents_.backward().producing_use(tensor);
  if (!producer.op.valid()) return;
  const std::size_t first = out_.num_wirings_;
  const auto consumers = graph_.consumers(tensor);
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const LayoutId target = data_layout(consumers[i], *now_);
    std::size_t w = first;
    while (w < out_.num_wirings_ && out_.wirings_[w].plan->target != target) ++w;
    if (w == out_.num_wirings_) {
      Wiring& wiring = begin_wiring(TaskKind::ForwardTransfer, tensor);
      wiring.ordinal = static_cast<std::int32_t>(i);
      wiring.sources.push_back(producer);
      wiring.source_terms.push_back(0);
      const LayoutId source = data_layout(producer, *now_);
      wiring.plan =
          &folded_by(folding_, contents_.transfer_plan(tensor, std::span(&source, 1), target, Moved::Data));
    }
    out_.wirings_[w].destinations.push_back(consumers[i]);
  }
}

void StrategyExpander::wire_forward(TensorId tensor) {
  const std::size_t first = out_.num_wirings_;
  plan_forward(tensor);
  for (std::size_t w = first; w < out_.num_wirings_; ++w) {
    run_beside_products(out_.wirings_[w]);
    add_transfers(out_.wirings_[w]);
    connect_sources(out_.wirings_[w]);
    take_multiprocessors(out_.wirings_[w]);
    for (const UseRef c : out_.wirings_[w].destinations) {
      connect_readers(out_.wirings_[w], out_.tasks_of(c.op, microbatch_).forward,
                      (*now_)[c.op.index()]->shard_of_device);
    }
  }
  const std::size_t end = out_.num_wirings_;
  if (!contents_.recomputation().any() || first == end ||
      !contents_.recomputation().again(contents_.backward().producing_use(tensor).op))
    return;
  for (std::size_t w = first; w < end; ++w) wire_again(w);
}

// Moves what was made again to the consumers that read it.
void StrategyExpander::wire_again(std::size_t forward_wiring) {
  const Wiring& forward = out_.wirings_[forward_wiring];
  std::vector<UseRef> readers;
  std::ranges::copy_if(forward.destinations, std::back_inserter(readers),
                       [&](UseRef use) { return contents_.recomputation().reads_again(use); });
  if (readers.empty()) return;
  const Wiring& wiring = move_again(forward_wiring, std::move(readers), out_.wirings_[forward_wiring].share);
  for (const UseRef c : wiring.destinations) {
    const OperatorTasks& tasks = out_.tasks_of(c.op, microbatch_);
    // Backward of an operator that runs again waits for its second run.
    const std::array<TaskId, 2> backward{tasks.backward_input, tasks.backward_weight},
        again{tasks.recompute, {}};
    for (const TaskId first : tasks.recompute.valid() ? again : backward) {
      if (first.valid()) connect_readers(wiring, first, (*now_)[c.op.index()]->shard_of_device);
    }
  }
}

Wiring& StrategyExpander::move_again(std::size_t forward_wiring, std::vector<UseRef> readers, double share) {
  Wiring& wiring = begin_wiring(TaskKind::RecomputeTransfer, out_.wirings_[forward_wiring].tensor);
  const Wiring& once = out_.wirings_[forward_wiring];  // where it lies now
  wiring.ordinal = once.ordinal;
  wiring.plan = once.plan;
  wiring.sources = once.sources;
  wiring.source_terms = once.source_terms;
  wiring.destinations = std::move(readers);
  wiring.share = share;
  add_transfers(wiring);
  connect_sources(wiring);
  take_multiprocessors(wiring);
  return wiring;
}

// Lets a transfer run beside products where the runtime does so, if all products on the side on which it is
// cut into parts are plain ones.
void StrategyExpander::run_beside_products(Wiring& wiring) const {
  if (!contents_.costs().runtime().tensor_overlap) return;
  const CommunicationPlan& whole = folding_ ? folding_->whole(*wiring.plan) : *wiring.plan;
  const auto parted = parted_transfer(whole, contents_.costs().topology());
  if (!parted) return;
  std::set<OperatorId> products;
  for (const UseRef use : parted->kind == Collective::AllGather ? wiring.destinations : wiring.sources)
    products.insert(use.op);
  Nanoseconds time = 0;
  for (const OperatorId product : products) {
    const Operator& op = graph_.op(product);
    if (!op.matrix || op.matrix->fused || op.matrix->batch.size() > 0) return;
    const BoundOperator& bound = *(*now_)[product.index()];
    const PassWork& work = wiring.kind == TaskKind::ForwardTransfer ? bound.forward : bound.backward_input;
    if (!work.present) return;
    time += *std::ranges::min_element(work.durations);
  }
  Nanoseconds transfer = 0;
  for (const CommunicationTask& task : whole.tasks) transfer = std::max(transfer, task.duration);
  wiring.share = share_beside_product(transfer, time, parted->parts);
}

// The consumers that make a gradient, and the terms in which they make it.
void StrategyExpander::list_sources(Wiring& wiring) {
  terms_.clear();
  const std::span<const UseRef> makers = contents_.backward().gradient_makers(wiring.tensor);
  wiring.ways = wiring.kind == TaskKind::GradientSync ? contents_.ways_through(makers.front().op) : 1;
  for (std::int32_t way = 0; way < wiring.ways; ++way) {
    const BoundStrategy& used =
        wiring.ways == 1 ? strategy_of(wiring.kind) : contents_.strategy_of(way, out_.strategy_);
    for (const UseRef maker : makers) {
      wiring.sources.push_back(maker);
      wiring.source_terms.push_back(term_of(gradient_layout(maker, used), terms_));
    }
  }
}

void StrategyExpander::wire_backward(TensorId tensor) {
  if (!contents_.backward().has_backward(tensor)) return;
  Wiring& wiring = begin_wiring(TaskKind::BackwardTransfer, tensor);
  list_sources(wiring);
  const UseRef producer = contents_.backward().producing_use(tensor);
  wiring.destinations.push_back(producer);
  wiring.plan = &folded_by(
      folding_, contents_.transfer_plan(tensor, terms_, gradient_layout(producer, *now_), Moved::Gradient));
  run_beside_products(wiring);
  add_transfers(wiring);
  connect_sources(wiring);
  take_multiprocessors(wiring);
  const OperatorTasks& tasks = out_.tasks_of(producer.op, microbatch_);
  for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
    if (first.valid()) connect_readers(wiring, first, (*now_)[producer.op.index()]->shard_of_device);
  }
}

void StrategyExpander::add_updates(OperatorId owner) {
  if (contents_.backward().owned_weights(owner).empty()) return;
  const OwnedUpdates& work = folded_by(folding_, contents_.update_work(owner, out_.strategy_));
  const std::int32_t every =
      contents_.versions().several() ? contents_.versions().every(contents_.stage_of(owner)) : 1;
  const std::int32_t first = contents_.versions().several() ? microbatch_ / every * every : 0;
  OperatorTasks& tasks = tasks_of(owner, first);
  tasks.update = TaskId(dag().num_tasks());
  tasks.updates = &work;
  for (std::size_t i = 0; i < work.devices.size(); ++i) {
    const DeviceId d = work.devices[i];
    dag().add_task(compute_key(TaskKind::Update, first, owner, 0, d), work.durations[i], LaneId(d.value));
    const std::int32_t number = contents_.versions().several() ? labelled(first) : -1;
    if (labels_)
      out_.graph_.labels.push_back(
          {TaskKind::Update, Collective::Send, owner, {}, d, d, 1, 0, Bytes(0), number});
  }
  for (const TensorId w : contents_.backward().owned_weights(owner)) {
    if (contents_.syncs_each_microbatch(w, out_.strategy_)) {
      for (const std::size_t sync : syncs_[w])
        connect_readers(out_.wirings_[sync], tasks.update, work.update_of_device);
      continue;
    }
    const Wiring& sync = out_.wirings_[sync_gradient(w, contents_.versions().several() ? first : -1)];
    if (first > 0) {
      connect_idle_replicas(dag(), sync, out_.microbatches_, out_.tasks_of(owner, first - every).update,
                            work.update_of_device);
    }
    connect_readers(sync, tasks.update, work.update_of_device);
  }
  const StateSharding& sharding = contents_.options().state_sharding;
  if (sharding.any() && !sharding.gathers_before_use())
    gathers_.add_after_update(owner, tasks.update, work.update_of_device);
}

// Reduces the gradients of one microbatch, of a change of weights, or of all microbatches (−1). Returns the
// wiring's number.
std::size_t StrategyExpander::sync_gradient(TensorId weight, std::int32_t microbatch) {
  const std::size_t number = out_.num_wirings_;
  if (microbatch < 0) syncs_once_.push_back(number);
  Wiring& wiring = begin_wiring(TaskKind::GradientSync, weight);
  wiring.microbatch = microbatch;
  list_sources(wiring);
  wiring.plan = &folded_by(folding_, contents_.sync_plan(weight, out_.strategy_));
  add_transfers(wiring);
  if (!folding_ || !reduces_after_steps()) connect_sources(wiring);  // else the order of steps implies it
  if (microbatch < 0 && reduces_after_backward()) {
    wait_for_backward(wiring);
  } else if (!reduces_after_steps()) {
    interfere_with_backward(wiring);
  }
  return number;
}

// Takes compute layer by layer, from when the device has made its parts of the gradients. Gradients of all
// microbatches take it in the last microbatch.
void StrategyExpander::interfere_with_backward(const Wiring& sync) {
  if (contents_.costs().runtime().interference == 0) return;
  const std::size_t maker_of_last = last_maker(sync);
  const std::int32_t layer = layer_of_[maker_of_last];
  const std::uint64_t group = layer == kNoLayer ? maker_of_last : graph_.operators().size() + layer;
  interfere(sync, group);
  wait_for_makers(sync, group);
}

void StrategyExpander::wait_for_makers(const Wiring& wiring, std::uint64_t group) {
  visit_sources(wiring, [&](std::size_t, const BoundOperator& bound, TaskId maker) {
    auto of_device = interferences_.lower_bound({group, DeviceId(0)});
    for (; of_device != interferences_.end() && of_device->first.first == group; ++of_device) {
      const std::int32_t shard = bound.shard_of_device[of_device->first.second.index()];
      if (shard >= 0) of_device->second.makers.push_back(task_at(maker, shard));
    }
  });
}

// Each device reduces one piece of gradients after the other: what stages wait for then queues up behind one
// piece at most, and not behind all that are ready. The last operators' come first, as backward makes them.
void StrategyExpander::reduce_on_streams() {
  const auto maker = [&](std::size_t sync) { return last_maker(out_.wirings_[sync]); };
  std::ranges::stable_sort(syncs_once_, std::greater{}, maker);
  StreamEnds streams = empty_streams();
  for (const std::size_t sync : syncs_once_) queue(out_.wirings_[sync], streams);
}

StreamEnds StrategyExpander::empty_streams() const {
  return StreamEnds(contents_.costs().topology().num_devices());
}

void StrategyExpander::queue(const Wiring& wiring, StreamEnds& streams) {
  for (const PlanExpansion::Contribution& c : wiring.plan->expansion.contributions) {  // by task
    const auto round = static_cast<std::size_t>(wiring.plan->tasks[static_cast<std::size_t>(c.task)].round);
    std::vector<TaskId>& rounds = streams[c.device.index()];
    if (rounds.size() <= round) rounds.resize(round + 1);
    const TaskId piece = task_at(wiring.first_task, c.task);
    if (rounds[round].valid() && rounds[round] != piece) dag().add_edge(rounds[round], piece);
    rounds[round] = piece;
  }
}

// Gates take a moment, so that what becomes ready behind several of them is compared by its keys.
void StrategyExpander::update_together() {
  if (!contents_.options().pipeline) find_last_passes();  // else updates wait for all steps
  struct Gates {
    TaskId summed, updated;
  };
  std::vector<Gates> gates(contents_.costs().topology().num_devices());
  for (std::size_t i = 0; i < out_.strategy_.size(); ++i) {
    const OperatorTasks& tasks = out_.tasks_of(OperatorId(i));
    if (!tasks.update.valid()) continue;
    for (std::size_t k = 0; k < tasks.update_devices().size(); ++k) {
      const DeviceId device = tasks.update_devices()[k];
      Gates& at = gates[device.index()];
      if (!at.summed.valid()) {
        TaskLabel label;
        label.stage = TaskLabel::all_summed;
        at.summed = add_gate(update_gate_key(0, device), device, label, {}, 1);
        label.stage = TaskLabel::all_updated;
        at.updated = add_gate(update_gate_key(1, device), device, label, {}, 1);
        if (!last_passes_.empty() && last_passes_[device.index()].valid())
          dag().add_edge(last_passes_[device.index()], at.summed);
      }
      const TaskId update = task_at(tasks.update, static_cast<std::int32_t>(k));
      dag().add_edge(at.summed, update);
      dag().add_edge(update, at.updated);
    }
  }
  for (std::size_t w = 0; w < out_.num_wirings_; ++w) {
    const Wiring& wiring = out_.wirings_[w];
    if (wiring.kind == TaskKind::GradientSync) {
      for (const PlanExpansion::Arrival& a : wiring.plan->expansion.arrivals) {
        const TaskId summed = gates[a.device.index()].summed;
        if (summed.valid()) dag().add_edge(task_at(wiring.first_task, a.task), summed);
      }
    }
    if (wiring.kind != TaskKind::WeightGather || contents_.options().state_sharding.gathers_before_use())
      continue;
    for (const PlanExpansion::Contribution& c : wiring.plan->expansion.contributions) {
      const TaskId updated = gates[c.device.index()].updated;
      if (updated.valid()) dag().add_edge(updated, task_at(wiring.first_task, c.task));
    }
  }
}

// Runtime::overlap decides where no pipeline orders the steps.
bool StrategyExpander::reduces_after_backward() const {
  const PlanOptions& options = contents_.options();
  if (options.pipeline || options.state_sharding.each_microbatch() || contents_.versions().several())
    return false;
  const ReductionOverlap overlap = contents_.costs().runtime().overlap;
  return overlap == ReductionOverlap::Never ||
         (overlap == ReductionOverlap::UnlessSharded && options.state_sharding.any());
}

// Backward ends with the first operators: finds for each device the last pass of its first operator.
void StrategyExpander::find_last_passes() {
  if (!last_passes_.empty()) return;
  last_passes_.resize(contents_.costs().topology().num_devices());
  for (std::size_t i = out_.strategy_.size(); i-- > 0;) {
    const BoundOperator& bound = *out_.strategy_[i];
    const OperatorTasks& tasks = tasks_of(OperatorId(i), out_.microbatches_ - 1);
    const bool weights = tasks.backward_weight.valid();
    const TaskId first = weights ? tasks.backward_weight : tasks.backward_input;
    const PassWork& work = weights ? bound.backward_weight : bound.backward_input;
    for (std::size_t k = 0; first.valid() && k < bound.config.devices.size(); ++k)
      last_passes_[bound.config.devices[k].index()] = shard_task(first, bound, work.stages() - 1, k);
  }
}

void StrategyExpander::wait_for_backward(const Wiring& sync) {
  find_last_passes();
  for (const PlanExpansion::Contribution& c : sync.plan->expansion.contributions) {
    const TaskId last = last_passes_[c.device.index()];
    if (last.valid()) dag().add_edge(last, task_at(sync.first_task, c.task));
  }
}

std::vector<std::int32_t> StrategyExpander::group_sizes(const CommunicationPlan& plan) const {
  const CommunicationPlan& whole = folding_ ? folding_->whole(plan) : plan;
  std::vector<std::int32_t> sizes(plan.tasks.size(), 0);
  for (std::size_t t = 0; t < whole.tasks.size(); ++t) {
    const std::size_t task = folding_ ? static_cast<std::size_t>(folding_->tasks_of(whole)[t]) : t;
    sizes[task] = static_cast<std::int32_t>(whole.tasks[t].group.size());
  }
  return sizes;
}

const CommunicationPlan& StrategyExpander::folded(const CommunicationPlan& plan) const {
  return folded_by(folding_, plan);
}

}  // namespace pipesim
