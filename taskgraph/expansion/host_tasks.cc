#include "taskgraph/expansion/host_tasks.h"

#include <algorithm>
#include <set>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"
#include "taskgraph/plan/layer_modules.h"

namespace pipesim {
namespace {

// Operators of a segment: about half a transformer layer, so that there are few tasks.
constexpr std::size_t kOperatorsOfSegment = 8;

// There are fewer than 2²⁴ devices and 2²⁰ stages (checks.h, Pipeline).
constexpr int kDeviceBits = 24, kPhaseBits = 2, kStageBits = 20;
constexpr std::uint64_t kPhaseMask = (1U << kPhaseBits) - 1;

std::uint64_t chain_key(std::int32_t stage, std::size_t phase, DeviceId device) {
  return (static_cast<std::uint64_t>(stage) << kPhaseBits | phase) << kDeviceBits | device.index();
}

std::uint64_t with_way(std::uint64_t chain, std::int32_t way) {
  return chain | static_cast<std::uint64_t>(way) << (kDeviceBits + kPhaseBits + kStageBits);
}

std::uint64_t launch_key(std::size_t segment, std::size_t phase, DeviceId device) {
  return (static_cast<std::uint64_t>(segment) << kPhaseBits | phase) << kDeviceBits | device.index();
}

}  // namespace

HostTasks::HostTasks(StrategyExpander& expander)
    : expander_(expander), contents_(expander.made().contents()), made_(expander.made()) {}

void HostTasks::begin(const PipelineOrder& order) {
  begun_ = true;
  const OperatorGraph& graph = contents_.graph();
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::size_t first = segment_ends_.empty() ? 0 : segment_ends_.back();
    const bool ends = i > 0 && (waits_for_counts(i) || i - first == kOperatorsOfSegment ||
                                contents_.stage_of(OperatorId(i)) != contents_.stage_of(OperatorId(i - 1)));
    if (ends) segment_ends_.push_back(i);
    segment_of_.push_back(segment_ends_.size());
  }
  segment_ends_.push_back(graph.operators().size());
  if (const CudaGraphs graphs = contents_.costs().runtime().graphs; graphs.modules != 0)
    graph_of_ = graphed_segments(graph, graphs, layers_of(graph));
  std::set<std::int32_t> begun{kNoSegment};
  for (const std::int32_t number : graph_of_) begins_graph_.push_back(begun.insert(number).second);
  stages_on_several_nodes_ = has_stages_on_several_nodes();
  by_segment_.resize(segment_ends_.size());
  number_of_device_.assign(contents_.costs().topology().num_devices(), -1);
  const auto is_split = [](const PipelineStep& step) { return step.kind == StepKind::BackwardInput; };
  splits_backward_ = std::ranges::any_of(
      order.steps, [&](const auto& steps) { return std::ranges::any_of(steps, is_split); });
}

bool HostTasks::has_stages_on_several_nodes() const {
  if (!contents_.options().pipeline) return false;
  const Topology& topology = contents_.costs().topology();
  const auto node_of = [&](const BoundOperator* bound) {
    return topology.device(bound->config.devices.front()).node;
  };
  const BoundStrategy& strategy = made_.strategy();
  return std::ranges::any_of(strategy,
                             [&](const BoundOperator* b) { return node_of(b) != node_of(strategy.front()); });
}

HostTasks::Part& HostTasks::part_of(DeviceId device, Phase phase) {
  std::int32_t& number = number_of_device_[device.index()];
  if (number < 0) {
    number = static_cast<std::int32_t>(now_collected_->size());
    now_collected_->push_back({device, {}});
  }
  return (*now_collected_)[static_cast<std::size_t>(number)].parts[phase];
}

HostTimes HostTasks::times_of(OperatorId op) const {
  const HostTimes& host = contents_.costs().runtime().host;
  if (graph_of_.empty() || graph_of_[op.index()] == kNoSegment) return host;
  HostTimes times = times_in_graphs();
  if (begins_graph_[op.index()]) {
    times.module = host.module;
    times.backward = host.backward;
  }
  return times;
}

bool HostTasks::in_one_graph(const Wiring& wiring) const {
  if (graph_of_.empty()) return false;
  const std::int32_t graph = graph_of_[wiring.sources.front().op.index()];
  return graph != kNoSegment && std::ranges::all_of(wiring.destinations, [&](UseRef reader) {
           return graph_of_[reader.op.index()] == graph;
         });
}

void HostTasks::add_operator(OperatorId op, const BoundOperator& bound, const OperatorTasks& tasks) {
  const HostTimes times = times_of(op);
  const Seconds collective = times.collective;
  const auto time_of = [&](Pass pass) {
    return host_time(contents_.graph().op(op), pass, times, bound.config.degrees);
  };
  const Phase weights = splits_backward_ ? kWeights : kBackward;
  // Backward runs through the operators the other way, so that the first one keeps its pass.
  const auto add_pass = [&](TaskId first, const PassWork& work, Phase phase, Seconds time,
                            bool is_last = false, bool again = false) {
    if (!first.valid()) return;
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
      Part& part = part_of(bound.config.devices[k], phase);
      const auto takes_part = [&](const InnerExchange& e) {
        return std::ranges::find(e.shards, static_cast<std::int32_t>(k)) != e.shards.end();
      };
      part.time += time + collective * static_cast<double>(std::ranges::count_if(work.exchanges, takes_part));
      const TaskId task = shard_task(first, bound, 0, k);
      if (is_last || !part.last.valid()) {
        part.last = op;
        part.last_passes = {task, {}};
      } else if (part.last == op && !again) {
        part.last_passes[1] = task;
      }
    }
  };
  if (contents_.graph().op(op).moves_nothing) return;
  add_pass(tasks.forward, bound.forward, kForward, time_of(Pass::Forward), true);
  add_pass(tasks.backward_weight, bound.backward_weight, weights, time_of(Pass::BackwardWeight));
  add_pass(tasks.backward_input, bound.backward_input, kBackward, time_of(Pass::BackwardInput));
  add_pass(tasks.recompute, bound.forward, kBackward, time_of(Pass::Forward), false, true);
}

// A collective is launched by those that bring something to it, a message by its sender.
void HostTasks::count_launches(std::size_t first_wiring) {
  launches_.clear();
  const HostTimes& times = contents_.costs().runtime().host;
  const bool by_member = times.member.value > 0 && stages_on_several_nodes_;
  const std::span<const Wiring> wirings = made_.wirings();
  for (const Wiring& w : wirings.subspan(first_wiring)) {
    if (!moves_activations(w.kind) && w.kind != TaskKind::BackwardTransfer) continue;
    const Phase phase = w.kind == TaskKind::ForwardTransfer ? kForward : kBackward;
    const std::size_t segment = segment_of_[w.sources.front().op.index()];
    const Seconds collective = in_one_graph(w) ? times_in_graphs().collective : times.collective;
    std::vector<std::int32_t> sizes;
    if (by_member) sizes = expander_.group_sizes(*w.plan);
    std::vector<std::pair<DeviceId, std::int32_t>> seen;
    for (const PlanExpansion::Contribution& c : w.plan->expansion.contributions)
      seen.emplace_back(c.device, c.task);
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (const auto& [device, task] : seen) {
      Seconds& time = launches_[launch_key(segment, phase, device)];
      time += collective;
      if (by_member) time += times.member * static_cast<double>(sizes[static_cast<std::size_t>(task)]);
    }
  }
}

void HostTasks::collect(std::size_t segment, const BoundStrategy& strategy, std::int32_t microbatch) {
  now_collected_ = &by_segment_[segment];
  now_collected_->clear();
  const std::size_t first = segment == 0 ? 0 : segment_ends_[segment - 1];
  for (std::size_t i = first; i < segment_ends_[segment]; ++i)
    add_operator(OperatorId(i), *strategy[i], made_.tasks_of(OperatorId(i), microbatch));
  for (Launches& l : *now_collected_) {
    number_of_device_[l.device.index()] = -1;
    for (const Phase phase : {kForward, kBackward}) {
      const auto found = launches_.find(launch_key(segment, phase, l.device));
      if (found != launches_.end()) l.parts[phase].time += found->second;
    }
  }
}

void HostTasks::add_parts(std::size_t segment, Phase phase, std::int32_t microbatch) {
  const std::size_t first = segment == 0 ? 0 : segment_ends_[segment - 1];
  const std::int32_t stage = contents_.stage_of(OperatorId(first));
  for (const auto& [device, parts] : by_segment_[segment]) {
    const Part& part = parts[phase];
    if (!part.last.valid()) continue;
    Chain& chain = now_[chain_key(stage, phase, device)];
    Seconds time = part.time;
    if (!chain.first.valid() && phase != kWeights) time += contents_.costs().runtime().host.step;
    TaskLabel label;
    label.op = OperatorId(first);
    label.stage = phase;
    label.microbatch = expander_.labelled(microbatch);
    const TaskId task = expander_.add_gate(host_key(microbatch, segment, phase, device), device, label, {},
                                           to_nanoseconds(time), TaskKind::Host);
    if (chain.last.valid()) expander_.dag().add_edge(chain.last, task);
    if (phase == kForward && waits_for_counts(first)) wait_for_device(chain, task);
    if (!chain.first.valid()) chain.first = task;
    chain.last = task;
    chain.launched = part.last_passes.front();
    for (const TaskId last : part.last_passes) {
      if (last.valid()) expander_.dag().add_edge(task, last);
    }
  }
}

bool HostTasks::waits_for_counts(std::size_t op) const {
  return contents_.costs().runtime().reads_token_counts &&
         contents_.graph().operators()[op].separate.reads_counts;
}

// The device has run all that it was given so far, the router with it.
void HostTasks::wait_for_device(const Chain& chain, TaskId launch) {
  if (chain.launched.valid()) expander_.dag().add_edge(chain.launched, launch);
}

void HostTasks::add(const PipelineOrder& order, const BoundStrategy& strategy, std::int32_t microbatch,
                    std::size_t first_wiring) {
  if (!contents_.costs().runtime().has_host()) return;
  if (!begun_) begin(order);
  now_.clear();
  count_launches(first_wiring);
  const std::size_t segments = segment_ends_.size();
  for (std::size_t s = 0; s < segments; ++s) {
    collect(s, strategy, microbatch);
    add_parts(s, kForward, microbatch);
  }
  for (std::size_t s = segments; s-- > 0;) {
    add_parts(s, kBackward, microbatch);
    add_parts(s, kWeights, microbatch);
  }
  wait_for_data(first_wiring);
  if (!contents_.options().pipeline) turn_round();
  if (splits_backward_) launch_weights_behind_inputs();
  // Chains of later microbatches have the same places in their microbatches.
  if (microbatch < contents_.ways()) {
    for (auto& [key, chain] : now_) chains_.emplace(with_way(key, microbatch), chain);
  }
}

// Without stages, a process goes from forward to backward.
void HostTasks::turn_round() {
  for (std::size_t d = 0; d < number_of_device_.size(); ++d) {
    const auto forward = now_.find(chain_key(0, kForward, DeviceId(d))),
               backward = now_.find(chain_key(0, kBackward, DeviceId(d)));
    if (forward != now_.end() && backward != now_.end())
      expander_.dag().add_edge(forward->second.last, backward->second.first);
  }
}

// Makes launches of a microbatch's weight gradients wait for those of its input gradients. Some steps have
// both; where they are two steps, the first is over anyway.
void HostTasks::launch_weights_behind_inputs() {
  for (const auto& [key, weights] : now_) {
    if (((key >> kDeviceBits) & kPhaseMask) != kWeights) continue;
    const auto inputs = now_.find(key - ((kWeights - kBackward) << kDeviceBits));
    if (inputs != now_.end()) expander_.dag().add_edge(inputs->second.last, weights.first);
  }
}

void HostTasks::wait_for_data(std::size_t first_wiring) {
  if (!contents_.options().pipeline) return;
  for (const Wiring& w : made_.wirings().subspan(first_wiring)) {
    if (w.kind != TaskKind::ForwardTransfer && w.kind != TaskKind::BackwardTransfer) continue;
    const Phase phase = w.kind == TaskKind::ForwardTransfer ? kForward : kBackward;
    for (const UseRef reader : w.destinations) {
      const std::int32_t stage = contents_.stage_of(reader.op);
      const auto is_elsewhere = [&](UseRef source) { return contents_.stage_of(source.op) != stage; };
      if (!std::ranges::all_of(w.sources, is_elsewhere)) continue;  // else it waits for the step itself
      for (const PlanExpansion::Arrival a : w.plan->expansion.arrivals) {
        const auto chain = now_.find(chain_key(stage, phase, a.device));
        if (chain != now_.end()) expander_.dag().add_edge(task_at(w.first_task, a.task), chain->second.first);
      }
    }
  }
}

void HostTasks::connect(const PipelineStep& step, DeviceId device, TaskId before, TaskId after) {
  if (!begun_) return;
  const Phase phase = step.kind == StepKind::Forward          ? kForward
                      : step.kind == StepKind::BackwardWeight ? kWeights
                                                              : kBackward;
  connect(step, phase, device, before, after);
  if (step.kind == StepKind::Backward && splits_backward_) connect(step, kWeights, device, before, after);
}

void HostTasks::connect(const PipelineStep& step, Phase phase, DeviceId device, TaskId before, TaskId after) {
  const std::int32_t way = step.microbatch % contents_.ways();
  const std::int32_t stage = contents_.options().pipeline ? step.stage : 0;
  const auto found = chains_.find(with_way(chain_key(stage, phase, device), way));
  if (found == chains_.end()) return;
  const auto at = [&](TaskId task) { return made_.in_microbatch(task, step.microbatch); };
  if (before.valid()) expander_.dag().add_edge(before, at(found->second.first));
  if (after.valid()) expander_.dag().add_edge(at(found->second.last), after);
}

}  // namespace pipesim
