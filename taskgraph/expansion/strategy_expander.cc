#include "taskgraph/expansion/strategy_expander.h"

#include <algorithm>
#include <array>

#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/graph_memory.h"
#include "taskgraph/expansion/recompute_gates.h"
#include "taskgraph/expansion/step_order.h"

namespace pipesim {
namespace {

// In the order of pipesim::add_pass.
void label_pass(OperatorId op, const BoundOperator& bound, TaskKind kind, const PassWork& work,
                std::int32_t microbatch, std::vector<TaskLabel>& labels) {
  for (std::size_t stage = 0; stage < work.stages(); ++stage) {
    for (const DeviceId d : bound.config.devices) {
      const auto number = static_cast<std::int32_t>(stage);
      labels.push_back({kind, Collective::Send, op, {}, d, d, 1, number, Bytes(0), microbatch});
    }
  }
  for (const InnerExchange& e : work.exchanges) {
    const bool message = e.task.kind == Collective::Send;
    labels.push_back({kind_of(e),
                      e.task.kind,
                      op,
                      {},
                      e.task.group.front(),
                      message ? e.task.group.back() : DeviceId(),
                      static_cast<std::int32_t>(e.task.group.size()),
                      e.step,
                      e.task.size,
                      microbatch});
  }
}

// Folded graphs leave out edges that others imply. A device's tasks of one step come after those of the step
// before, so what waits for the weight gradients of all microbatches need only wait for the last ones. By
// stage and way (stage · ways + way): those of the last steps that run backward_input and backward_weight.
std::vector<std::pair<std::int32_t, std::int32_t>> last_backward(const PipelineOrder& order,
                                                                 std::int32_t stages, std::int32_t ways) {
  std::vector<std::pair<std::int32_t, std::int32_t>> last;
  for (std::int32_t s = 0; s < stages; ++s) {
    for (std::int32_t way = 0; way < ways; ++way) last.emplace_back(way, way);
  }
  for (const std::vector<PipelineStep>& steps : order.steps) {
    for (const PipelineStep& step : steps) {
      auto& [input, weight] = last[static_cast<std::size_t>(step.stage * ways + step.microbatch % ways)];
      const bool both = step.kind == StepKind::Backward;
      if (both || step.kind == StepKind::BackwardInput) input = step.microbatch;
      if (both || step.kind == StepKind::BackwardWeight) weight = step.microbatch;
    }
  }
  return last;
}

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

// The plan, or the updates, on the devices that the folding keeps.
template <class Work>
const Work& folded_by(const Folding* folding, const Work& work) {
  return folding ? folding->folded(work) : work;
}

}  // namespace

StrategyExpander::StrategyExpander(ExpandedStrategy& out, Labels labels, const Folding* folding)
    : out_(out),
      contents_(out.contents()),
      graph_(contents_.graph()),
      labels_(labels == Labels::Make),
      folding_(folding),
      version_gates_(*this),
      gathers_(*this),
      input_gathers_(*this),
      now_(&out.strategy()) {}

OperatorTasks& StrategyExpander::tasks_of(OperatorId op, std::int32_t microbatch) {
  return out_.tasks_[static_cast<std::size_t>(microbatch) * out_.operators_ + op.index()];
}

// Transfers are those of one microbatch, synchronisation that of all.
const BoundStrategy& StrategyExpander::strategy_of(TaskKind kind) const {
  return kind == TaskKind::GradientSync ? out_.strategy_ : *now_;
}

std::int32_t StrategyExpander::labelled(std::int32_t microbatch) const {
  return contents_.options().microbatches > 1 ? microbatch : -1;
}

void StrategyExpander::add_microbatches(const PipelineOrder& order) {
  const std::size_t ops = graph_.operators().size();
  const auto& pipeline = contents_.options().pipeline;
  const WeightVersions& versions = contents_.versions();
  const std::int32_t microbatches = out_.microbatches_;
  if (folding_) {
    const std::int32_t stages = pipeline ? pipeline->num_stages() : 1;
    last_backward_ = last_backward(order, stages, contents_.ways());
  }
  for (microbatch_ = 0; microbatch_ < microbatches; ++microbatch_) {
    now_ = &contents_.strategy_of(microbatch_, out_.strategy_);
    for (std::size_t i = 0; i < ops; ++i) {
      stop_if_late();
      add_operator(OperatorId(i), *(*now_)[i]);
    }
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      stop_if_late();
      wire_forward(TensorId(t));
    }
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      stop_if_late();
      wire_backward(TensorId(t));
    }
    if (contents_.options().gathered_inputs == GatheredInputs::Again) input_gathers_.add(*now_, microbatch_);
    if (contents_.options().state_sharding.each_microbatch()) {
      for (std::size_t i = 0; i < ops; ++i) {
        for (const TensorId w : contents_.backward().owned_weights(OperatorId(i))) {
          if (contents_.syncs_each_microbatch(w, *now_)) syncs_[w].push_back(sync_gradient(w, microbatch_));
        }
      }
    }
    if (contents_.recomputation().any()) add_recompute_gates(*this, *now_, microbatch_);
    if (contents_.options().state_sharding.gathers_to_use()) gathers_.add_before_use(*now_, microbatch_);
    if (versions.several()) version_gates_.add(*now_, microbatch_);
    if (microbatch_ == 0) {
      out_.tasks_of_one_microbatch_ = dag().num_tasks();
      require_room(out_.graph_, microbatches, contents_.costs().topology());
    }
    for (std::size_t i = 0; i < ops && versions.several(); ++i) {
      const std::int32_t every = versions.every(contents_.stage_of(OperatorId(i))), next = microbatch_ + 1;
      if (next % every == 0 || next == microbatches) add_updates(OperatorId(i));
    }
    if (microbatch_ < std::max(contents_.ways(), versions.period()))
      out_.block_ = {microbatch_ + 1, dag().num_tasks()};
    if (microbatch_ == 0 && microbatches_are_alike()) repeat_first_microbatch();
  }
  if (versions.several()) return;
  if (contents_.options().state_sharding.gathers_in_forward) gathers_.add_in_forward(out_.strategy_);
  for (std::size_t i = 0; i < ops; ++i) {
    stop_if_late();
    add_updates(OperatorId(i));
  }
}

// But for their numbers in keys.
bool StrategyExpander::microbatches_are_alike() const {
  return contents_.ways() == 1 && !contents_.versions().several() &&
         !contents_.options().state_sharding.each_microbatch();
}

void StrategyExpander::repeat_first_microbatch() {
  const auto more = static_cast<std::size_t>(out_.microbatches_ - 1);
  const std::size_t tasks = dag().num_tasks(), ops = out_.operators_, wirings = out_.num_wirings_,
                    gates = out_.gates_.size(), labels = out_.graph_.labels.size();
  dag().repeat(more, std::uint64_t{1} << kMicrobatchShift);
  const auto later = [&](TaskId task) {
    return task.valid() ? task_at(task, microbatch_ * static_cast<std::int32_t>(tasks)) : task;
  };
  for (++microbatch_; microbatch_ < out_.microbatches_; ++microbatch_) {
    stop_if_late();
    for (std::size_t i = 0; i < ops; ++i) {
      const OperatorTasks& first = out_.tasks_[i];
      OperatorTasks& now = tasks_of(OperatorId(i), microbatch_);
      now = {};
      now.forward = later(first.forward);
      now.backward_input = later(first.backward_input);
      now.backward_weight = later(first.backward_weight);
      now.recompute = later(first.recompute);
    }
    for (std::size_t w = 0; w < wirings; ++w) {
      if (out_.num_wirings_ == out_.wirings_.size()) out_.wirings_.emplace_back();
      Wiring& now = out_.wirings_[out_.num_wirings_++];
      now = out_.wirings_[w];
      now.microbatch = microbatch_;
      now.first_task = later(now.first_task);
    }
    for (std::size_t g = 0; g < gates; ++g) {
      Gate gate = out_.gates_[g];
      gate.task = later(gate.task);
      out_.gates_.push_back(gate);
    }
    for (std::size_t l = 0; l < labels; ++l) {
      TaskLabel label = out_.graph_.labels[l];
      label.microbatch = microbatch_;
      out_.graph_.labels.push_back(label);
    }
  }
  --microbatch_;  // the last one is done
}

void StrategyExpander::add_operator(OperatorId op, const BoundOperator& bound) {
  OperatorTasks& tasks = tasks_of(op, microbatch_);
  tasks = {};
  tasks.forward = add_pass(op, bound, TaskKind::Forward, bound.forward);
  if (contents_.versions().trained()) {
    tasks.backward_input = add_pass(op, bound, TaskKind::BackwardInput, bound.backward_input);
    tasks.backward_weight = add_pass(op, bound, TaskKind::BackwardWeight, bound.backward_weight);
  }
  if (contents_.recomputation().again(op))
    tasks.recompute = add_pass(op, bound, TaskKind::Recompute, bound.forward);
  if (!folding_ || !contents_.options().pipeline || tasks.recompute.valid())
    return connect_operator(dag(), bound, tasks);
  // The order of steps makes backward wait for forward.
  connect_stages(dag(), bound.forward, tasks.forward);
  connect_stages(dag(), bound.backward_input, tasks.backward_input);
  connect_stages(dag(), bound.backward_weight, tasks.backward_weight);
}

TaskId StrategyExpander::add_pass(OperatorId op, const BoundOperator& bound, TaskKind kind,
                                  const PassWork& work) {
  const TaskId first = pipesim::add_pass(dag(), op, bound, kind, work, microbatch_);
  if (labels_ && first.valid()) label_pass(op, bound, kind, work, labelled(microbatch_), out_.graph_.labels);
  return first;
}

void StrategyExpander::order_steps(const PipelineOrder& order) {
  std::vector<std::vector<OperatorShard>> shards(order.group_of.size());
  std::vector<const BoundStrategy*> strategies;
  for (std::int32_t way = 0; way < std::min(contents_.ways(), out_.microbatches_); ++way) {
    strategies.push_back(&contents_.strategy_of(way, out_.strategy_));
    add_shards(*strategies.back(), way, shards);
  }
  std::vector<TaskId> done(shards.size());  // of a pipeline: the last barriers
  for (std::size_t d = 0; d < shards.size(); ++d) {
    if (order.group_of[d] < 0 || shards[d].empty()) continue;
    struct Tasks {
      StrategyExpander& expander;
      DeviceId device;
      TaskDag& dag;
      [[nodiscard]] const OperatorTasks& of(OperatorId op, std::int32_t way) const {
        return expander.out_.tasks_of(op, way);
      }
      [[nodiscard]] TaskId at(TaskId task, std::int32_t microbatch) const {
        return expander.out_.in_microbatch(task, microbatch);
      }
      [[nodiscard]] std::int32_t stage_of(OperatorId op) const { return expander.contents_.stage_of(op); }
      TaskId add_barrier(std::size_t step, std::int32_t microbatch, bool last) {
        return expander.add_barrier(device, step, microbatch, last);
      }
      TaskId enter(std::span<const PipelineStep> steps, TaskId before) {
        const bool alone = expander.contents_.options().pipeline.has_value();
        expander.gathers_.enter(alone ? steps : steps.first(1), device, alone);
        return expander.version_gates_.enter(steps.front(), device, before);
      }
    };
    const TaskId first_barrier(dag().num_tasks());
    const std::vector<PipelineStep>& steps = order.steps[static_cast<std::size_t>(order.group_of[d])];
    done[d] = StepOrder(Tasks{*this, DeviceId(d), dag()}, strategies)
                  .connect(shards[d], steps, order.together, contents_.options().pipeline.has_value());
    if (contents_.versions().several())
      version_gates_.update_between_steps(DeviceId(d), steps, first_barrier);
  }
  if (!contents_.options().pipeline || contents_.versions().several()) return;
  update_after_steps(out_, out_.strategy_, done,
                     [&](TaskId last, TaskId update) { dag().add_edge(last, update); });
  if (reduces_after_steps()) reduce_after(done);
}

bool StrategyExpander::reduces_after_steps() const {
  const PlanOptions& options = contents_.options();
  return options.gradient_reduction == GradientReduction::AfterSteps && options.pipeline &&
         !options.state_sharding.each_microbatch() && !contents_.versions().several();
}

// By device its last barrier.
void StrategyExpander::reduce_after(std::span<const TaskId> done) {
  for (const Wiring& wiring : out_.wirings()) {
    if (wiring.kind != TaskKind::GradientSync) continue;
    for (const PlanExpansion::Contribution& c : wiring.plan->expansion.contributions) {
      const TaskId last = done[c.device.index()];
      if (last.valid()) dag().add_edge(last, task_at(wiring.first_task, c.task));
    }
  }
}

TaskId StrategyExpander::add_gate(TaskKey key, DeviceId device, const TaskLabel& label, OperatorId gathered) {
  const TaskId gate = dag().add_task(key, 0, LaneId());
  out_.gates_.push_back({device, gate, gathered});
  if (labels_) out_.graph_.labels.push_back(label);
  return gate;
}

// What several devices reduce together must be ready at one time and compared by its keys. Were the last
// barriers to take no time, reductions that wait for one device would go before those that wait for one more.
TaskId StrategyExpander::add_barrier(DeviceId device, std::size_t step, std::int32_t microbatch, bool last) {
  const Nanoseconds takes = last && reduces_after_steps() ? 1 : 0;
  const TaskId barrier = dag().add_task(barrier_key(step, device), takes, LaneId());
  out_.barriers_.push_back({device, microbatch, barrier});
  if (labels_) {
    out_.graph_.labels.push_back({TaskKind::Barrier,
                                  Collective::Send,
                                  {},
                                  {},
                                  device,
                                  device,
                                  1,
                                  static_cast<std::int32_t>(step),
                                  Bytes(0),
                                  microbatch});
  }
  return barrier;
}

// From the first to before the second.
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

void StrategyExpander::add_transfers(Wiring& wiring) {
  const std::uint64_t key = transfer_key_high(wiring.kind, std::max(0, wiring.microbatch), wiring.tensor,
                                              static_cast<std::uint64_t>(wiring.ordinal));
  wiring.first_task = pipesim::add_transfers(dag(), *wiring.plan, key);
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

// Its memory is used again.
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
  w.sources.clear();
  w.destinations.clear();
  w.source_terms.clear();
  w.ways = 1;
  return w;
}

// From the producer to all consumers: one for each layout that is wanted.
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
      wiring.plan = &folded_by(folding_, contents_.transfer_plan(tensor, std::span(&source, 1), target));
    }
    out_.wirings_[w].destinations.push_back(consumers[i]);
  }
}

void StrategyExpander::wire_forward(TensorId tensor) {
  const std::size_t first = out_.num_wirings_;
  plan_forward(tensor);
  for (std::size_t w = first; w < out_.num_wirings_; ++w) {
    add_transfers(out_.wirings_[w]);
    connect_sources(out_.wirings_[w]);
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

// The way of what was made again, to those that read it.
void StrategyExpander::wire_again(std::size_t forward_wiring) {
  const Wiring& forward = out_.wirings_[forward_wiring];
  std::vector<UseRef> readers;
  std::ranges::copy_if(forward.destinations, std::back_inserter(readers),
                       [&](UseRef use) { return contents_.recomputation().reads_again(use); });
  if (readers.empty()) return;
  const Wiring& wiring = move_again(forward_wiring, std::move(readers));
  for (const UseRef c : wiring.destinations) {
    const OperatorTasks& tasks = out_.tasks_of(c.op, microbatch_);
    // The backward of what is run again waits for that.
    const std::array<TaskId, 2> backward{tasks.backward_input, tasks.backward_weight},
        again{tasks.recompute, {}};
    for (const TaskId first : tasks.recompute.valid() ? again : backward) {
      if (first.valid()) connect_readers(wiring, first, (*now_)[c.op.index()]->shard_of_device);
    }
  }
}

Wiring& StrategyExpander::move_again(std::size_t forward_wiring, std::vector<UseRef> readers) {
  Wiring& wiring = begin_wiring(TaskKind::RecomputeTransfer, out_.wirings_[forward_wiring].tensor);
  const Wiring& once = out_.wirings_[forward_wiring];  // where it lies now
  wiring.ordinal = once.ordinal;
  wiring.plan = once.plan;
  wiring.sources = once.sources;
  wiring.source_terms = once.source_terms;
  wiring.destinations = std::move(readers);
  add_transfers(wiring);
  connect_sources(wiring);
  return wiring;
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
  wiring.plan =
      &folded_by(folding_, contents_.transfer_plan(tensor, terms_, gradient_layout(producer, *now_)));
  add_transfers(wiring);
  connect_sources(wiring);
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
  tasks.update_devices = work.devices;
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

// Of the gradients of one microbatch, a change of weights, or (−1) all microbatches. Returns the wiring's
// number.
std::size_t StrategyExpander::sync_gradient(TensorId weight, std::int32_t microbatch) {
  const std::size_t number = out_.num_wirings_;
  Wiring& wiring = begin_wiring(TaskKind::GradientSync, weight);
  wiring.microbatch = microbatch;
  list_sources(wiring);
  wiring.plan = &folded_by(folding_, contents_.sync_plan(weight, out_.strategy_));
  add_transfers(wiring);
  if (!folding_ || !reduces_after_steps()) connect_sources(wiring);  // else the order of steps implies it
  return number;
}

const CommunicationPlan& StrategyExpander::folded(const CommunicationPlan& plan) const {
  return folded_by(folding_, plan);
}

}  // namespace pipesim
