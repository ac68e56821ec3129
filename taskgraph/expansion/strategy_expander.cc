#include "taskgraph/expansion/strategy_expander.h"

#include <algorithm>
#include <array>
#include <set>

#include "costmodel/runtime/dispatcher.h"
#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/graph_memory.h"
#include "taskgraph/expansion/recompute_gates.h"
#include "taskgraph/expansion/step_order.h"

namespace pipesim {
namespace {

// Adds labels in the order of pipesim::add_pass.
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

}  // namespace

StrategyExpander::StrategyExpander(ExpandedStrategy& out, Labels labels, const Folding* folding)
    : out_(out),
      contents_(out.contents()),
      graph_(contents_.graph()),
      labels_(labels == Labels::Make),
      folding_(folding),
      version_gates_(*this),
      pair_gates_(*this),
      gathers_(*this),
      input_gathers_(*this),
      host_tasks_(*this),
      now_(&out.strategy()) {
  if (contents_.costs().runtime().interference > 0) layer_of_ = layers_of(graph_);
}

// Transfers are those of one microbatch, synchronisation that of all.
const BoundStrategy& StrategyExpander::strategy_of(TaskKind kind) const {
  return kind == TaskKind::GradientSync ? out_.strategy_ : *now_;
}

std::int32_t StrategyExpander::labelled(std::int32_t microbatch) const {
  return contents_.options().microbatches > 1 ? microbatch : -1;
}

std::vector<std::pair<std::int32_t, DeviceId>> StrategyExpander::places_of_stages(
    const BoundStrategy& strategy) const {
  std::vector<std::pair<std::int32_t, DeviceId>> places;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    for (const DeviceId d : strategy[i]->config.devices)
      places.emplace_back(contents_.stage_of(OperatorId(i)), d);
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

void StrategyExpander::add_microbatches(const PipelineOrder& order) {
  const std::size_t ops = graph_.operators().size();
  const auto& pipeline = contents_.options().pipeline;
  const WeightVersions& versions = contents_.versions();
  const std::int32_t microbatches = out_.microbatches_;
  syncs_once_.clear();
  if (folding_) {
    const std::int32_t stages = pipeline ? pipeline->num_stages() : 1;
    last_backward_ = last_backward(order, stages, contents_.ways());
  }
  for (microbatch_ = 0; microbatch_ < microbatches; ++microbatch_) {
    now_ = &contents_.strategy_of(microbatch_, out_.strategy_);
    const std::size_t first_wiring = out_.num_wirings_;
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
    add_interferences();
    input_gathers_.add(*now_, microbatch_);
    if (contents_.options().state_sharding.each_microbatch()) {
      for (std::size_t i = 0; i < ops; ++i) {
        for (const TensorId w : contents_.backward().owned_weights(OperatorId(i))) {
          if (contents_.syncs_each_microbatch(w, *now_)) syncs_[w].push_back(sync_gradient(w, microbatch_));
        }
      }
      add_interferences();
    }
    if (contents_.recomputation().any()) add_recompute_gates(*this, *now_, microbatch_);
    if (contents_.options().state_sharding.gathers_to_use()) gathers_.add_before_use(*now_, microbatch_);
    if (versions.several()) version_gates_.add(*now_, microbatch_);
    pair_gates_.add(order, *now_, microbatch_);
    host_tasks_.add(order, *now_, microbatch_, first_wiring);
    if (microbatch_ == 0) {
      out_.tasks_of_one_microbatch_ = dag().num_tasks();
      require_room(out_.graph_, microbatches, contents_.costs().topology());
    }
    for (std::size_t i = 0; i < ops && versions.several(); ++i) {
      const std::int32_t every = versions.every(contents_.stage_of(OperatorId(i))), next = microbatch_ + 1;
      if (next % every == 0 || next == microbatches) add_updates(OperatorId(i));
    }
    add_interferences();
    if (microbatch_ < std::max(contents_.ways(), versions.period()))
      out_.block_ = {microbatch_ + 1, dag().num_tasks()};
    if (microbatch_ + 1 == contents_.ways() && blocks_are_alike()) repeat_first_block();
  }
  if (versions.several()) return;
  if (contents_.options().state_sharding.gathers_in_forward()) gathers_.add_in_forward(out_.strategy_);
  for (std::size_t i = 0; i < ops; ++i) {
    stop_if_late();
    add_updates(OperatorId(i));
  }
  if (contents_.updates_together()) update_together();
  add_interferences();
  if (pipeline && contents_.options().gradient_reduction == GradientReduction::Overlapped &&
      contents_.ways() == 1 && !contents_.options().state_sharding.each_microbatch())
    reduce_on_streams();
}

// Whether all blocks, of one microbatch of each way, are alike but for their numbers in keys.
bool StrategyExpander::blocks_are_alike() const {
  return out_.microbatches_ % contents_.ways() == 0 && !contents_.versions().several() &&
         !contents_.options().state_sharding.each_microbatch();
}

void StrategyExpander::repeat_first_block() {
  const std::int32_t ways = contents_.ways(), more = out_.microbatches_ / ways - 1;
  const std::size_t tasks = dag().num_tasks(), ops = out_.operators_, wirings = out_.num_wirings_,
                    gates = out_.gates_.size(), labels = out_.graph_.labels.size();
  dag().repeat(static_cast<std::size_t>(more), static_cast<std::uint64_t>(ways) << kMicrobatchShift);
  out_.wirings_.reserve(wirings * static_cast<std::size_t>(more + 1));
  for (std::int32_t block = 1; block <= more; ++block) {
    stop_if_late();
    const auto later = [&](TaskId task) {
      return task.valid() ? task_at(task, block * static_cast<std::int32_t>(tasks)) : task;
    };
    const std::int32_t shift = block * ways;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ways) * ops; ++i) {
      const OperatorTasks& first = out_.tasks_[i];
      OperatorTasks& now = out_.tasks_[static_cast<std::size_t>(shift) * ops + i];
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
      now.microbatch += shift;
      now.first_task = later(now.first_task);
    }
    for (std::size_t g = 0; g < gates; ++g) {
      Gate gate = out_.gates_[g];
      gate.task = later(gate.task);
      out_.gates_.push_back(gate);
    }
    for (std::size_t l = 0; l < labels; ++l) {
      TaskLabel label = out_.graph_.labels[l];
      label.microbatch += shift;
      out_.graph_.labels.push_back(label);
    }
  }
  microbatch_ = out_.microbatches_ - 1;  // the last one is done
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
  if (reduces_after_steps()) add_reduction_gates(order);
  std::vector<TaskId> done(shards.size());  // of a pipeline: the last barriers
  std::vector<TaskId> first_barriers(shards.size());
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
      TaskId add_barrier(std::size_t step, std::span<const PipelineStep> behind) {
        return expander.add_barrier(device, step, behind);
      }
      void connect_host(const PipelineStep& step, TaskId before, TaskId after) {
        expander.host_tasks_.connect(step, device, before, after);
      }
      TaskId enter(std::span<const PipelineStep> steps, TaskId before) {
        const bool alone = expander.contents_.options().pipeline.has_value();
        expander.gathers_.enter(alone ? steps : steps.first(1), device, alone);
        const TaskId entered = expander.version_gates_.enter(steps.front(), device, before);
        return alone ? expander.pair_gates_.enter(steps, device, entered) : entered;
      }
    };
    first_barriers[d] = TaskId(dag().num_tasks());
    const std::vector<PipelineStep>& steps = order.steps[static_cast<std::size_t>(order.group_of[d])];
    done[d] = StepOrder(Tasks{*this, DeviceId(d), dag()}, strategies)
                  .connect(shards[d], steps, order.together, contents_.options().pipeline.has_value());
    if (contents_.versions().several())
      version_gates_.update_between_steps(DeviceId(d), steps, first_barriers[d]);
  }
  pair_gates_.connect(order, first_barriers);
  if (!contents_.options().pipeline || contents_.versions().several()) return;
  update_after_steps(out_, out_.strategy_, done,
                     [&](TaskId last, TaskId update) { dag().add_edge(last, update); });
  if (reduces_after_steps()) reduce_after(order, done);
}

bool StrategyExpander::reduces_after_steps() const {
  const PlanOptions& options = contents_.options();
  return options.gradient_reduction == GradientReduction::AfterSteps && options.pipeline &&
         !options.state_sharding.each_microbatch() && !contents_.versions().several();
}

namespace {

// The groups of a pipeline whose devices reduce the gradient together, ascending.
std::vector<std::int32_t> groups_of(const Wiring& sync, const PipelineOrder& order) {
  std::vector<std::int32_t> groups;
  for (const PlanExpansion::Contribution& c : sync.plan->expansion.contributions)
    groups.push_back(order.group_of[c.device.index()]);
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

}  // namespace

// All reductions of a group begin together, so that all its devices have them in the order of their keys.
// Otherwise reductions of devices that are done a moment earlier would go before the first that other devices
// take part in, and these would have to wait. A gate takes a moment, so that reductions behind gates of
// several groups, too, are compared by their keys.
void StrategyExpander::add_reduction_gates(const PipelineOrder& order) {
  reduction_gates_.clear();
  reductions_.clear();
  for (std::size_t w = 0; w < out_.num_wirings_; ++w) {
    const Wiring& wiring = out_.wirings_[w];
    if (wiring.kind != TaskKind::GradientSync || wiring.plan->expansion.tasks.empty()) continue;
    const auto [gate, is_new] = reduction_gates_.try_emplace(groups_of(wiring, order));
    if (is_new) {
      const DeviceId device = wiring.plan->expansion.contributions.front().device;
      TaskLabel label;
      label.tensor = wiring.tensor;
      gate->second = add_gate(reduction_gate_key(reduction_gates_.size(), device), device, label, {}, 1);
    }
    reductions_.emplace_back(w, gate->second);
  }
}

// `done`: by device its last barrier.
void StrategyExpander::reduce_after(const PipelineOrder& order, std::span<const TaskId> done) {
  for (const auto& [groups, gate] : reduction_gates_) {
    for (std::size_t d = 0; d < done.size(); ++d) {
      if (done[d].valid() && std::ranges::binary_search(groups, order.group_of[d]))
        dag().add_edge(done[d], gate);
    }
  }
  std::vector<bool> waits;  // by task of a plan
  for (const auto& [number, gate] : reductions_) {
    const Wiring& wiring = out_.wirings_[number];
    waits.assign(wiring.plan->expansion.tasks.size(), false);
    for (const PlanExpansion::Contribution& c : wiring.plan->expansion.contributions) {
      const TaskId task = task_at(wiring.first_task, c.task);
      if (!waits[static_cast<std::size_t>(c.task)]) dag().add_edge(gate, task);
      waits[static_cast<std::size_t>(c.task)] = true;
      const TaskId last = done[c.device.index()];
      if (!folding_ && last.valid()) dag().add_edge(last, task);  // else the gate implies it
    }
  }
}

TaskId StrategyExpander::add_gate(TaskKey key, DeviceId device, const TaskLabel& label, OperatorId gathered,
                                  Nanoseconds takes, TaskKind kind) {
  const TaskId gate = dag().add_task(key, takes, LaneId());
  out_.gates_.push_back({device, gate, gathered});
  if (!labels_) return gate;
  out_.graph_.labels.push_back(label);
  TaskLabel& made = out_.graph_.labels.back();
  made.kind = kind;
  made.device = made.peer = device;
  return gate;
}

TaskId StrategyExpander::add_barrier(DeviceId device, std::size_t step,
                                     std::span<const PipelineStep> behind) {
  // What is sent behind steps beside each other holds lanes that others want, too, and is compared by keys.
  const Nanoseconds takes = behind.back().beside ? 1 : 0;
  const std::int32_t microbatch = behind.front().microbatch;
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

// Messages take next to no compute: few blocks copy them. A collective takes compute while its bytes move;
// during its latency others move theirs.
void StrategyExpander::interfere(const Wiring& wiring, std::uint64_t group) {
  interfere(wiring, group,
            [&](const CommunicationTask&) { return contents_.costs().runtime().interference; });
}

void StrategyExpander::interfere(const Wiring& wiring, std::uint64_t group,
                                 const std::function<double(const CommunicationTask&)>& share_of) {
  for (std::size_t t = 0; t < wiring.plan->tasks.size(); ++t) {
    const CommunicationTask& task = wiring.plan->tasks[t];
    if (task.kind == Collective::Send) continue;
    const double share = share_of(task) * wiring.share;
    if (share == 0) continue;
    const Nanoseconds moving = longest_hold(task.lanes);
    for (const DeviceId device : std::set<DeviceId>(task.group.begin(), task.group.end())) {
      const auto [of_device, is_new] = interferences_.try_emplace({group, device});
      of_device->second.time += static_cast<double>(moving) * share;
      if (is_new) {
        of_device->second.key = interference_key(wiring.kind, std::max(0, wiring.microbatch), wiring.tensor,
                                                 wiring.ordinal, device);
        of_device->second.first = wiring.task(t);
      }
    }
  }
}

// Beside another microbatch's compute tokens take the multiprocessors that copy them, from when the device
// has made its own on.
void StrategyExpander::take_multiprocessors(const Wiring& wiring) {
  if (!contents_.pairs_passes() || !contents_.is_dispatched(wiring.tensor)) return;
  const CostModel& costs = contents_.costs();
  const std::uint64_t group = graph_.operators().size() * 2 + out_.num_wirings_;
  interfere(wiring, group, [&](const CommunicationTask& task) {
    const std::string& kind = costs.topology().kind(task.group.front()).name;
    return dispatcher_work(costs.runtime(), kind, false).share;
  });
  wait_for_makers(wiring, group);
}

void StrategyExpander::add_interferences(
    const std::function<void(std::uint64_t, DeviceId, TaskId)>& wait_for_start) {
  for (const auto& [place, interference] : interferences_) {
    const auto [group, device] = place;
    const auto time = static_cast<Nanoseconds>(interference.time);
    const TaskId task = dag().add_task(interference.key, time, LaneId(device.value));
    for (const TaskId maker : interference.makers) dag().add_edge(maker, task);
    if (wait_for_start) wait_for_start(group, device, task);
    if (!labels_) continue;
    TaskLabel label = out_.graph_.labels[interference.first.index()];
    label.kind = TaskKind::Interference;
    label.op = graph_.consumers(label.tensor).front().op;
    label.device = label.peer = device;
    out_.graph_.labels.push_back(label);
  }
  interferences_.clear();
}

}  // namespace pipesim
