#include "taskgraph/expansion/task_graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/folding.h"
#include "taskgraph/expansion/step_order.h"

namespace pipesim {

std::int64_t samples_per_iteration(const OperatorGraph& graph, const PlanOptions& options) {
  return graph.batch() * options.microbatches;
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const Topology& topology) {
  if (strategy.size() != graph.operators().size()) {
    return fmt::format("{} configs for {} operators", strategy.size(), graph.operators().size());
  }
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (auto reason = illegal(op, strategy[i], topology))
      return fmt::format("operator \"{}\": {}", op.name, *reason);
  }
  return std::nullopt;
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const PlanOptions& options, const Topology& topology) {
  if (auto reason = illegal(graph, strategy, topology)) return reason;
  if (options.pipeline) {
    if (auto reason = illegal(graph, strategy, *options.pipeline, options.microbatches, topology))
      return "pipeline: " + *reason;
  }
  if (auto reason = illegal(graph, options.recompute, options.pipeline)) return "recompute: " + *reason;
  return std::nullopt;
}

namespace {

std::int32_t all_ways(const std::optional<Pipeline>& pipeline) { return pipeline ? ways_of(*pipeline) : 1; }

// In the order of pipesim::add_pass.
void label_pass(OperatorId op, const BoundOperator& bound, TaskKind kind, const PassWork& work,
                std::int32_t microbatch, std::vector<TaskLabel>& labels) {
  for (std::size_t stage = 0; stage < work.stages(); ++stage) {
    for (const DeviceId d : bound.config.devices) {
      const auto number = static_cast<std::int32_t>(stage);
      labels.push_back({kind, Collective::Send, op, {}, d, d, 1, number, Bytes(0), microbatch});
    }
  }
  for (std::size_t stage = 0; stage + 1 < work.stages(); ++stage) {
    for (const InnerReduce& reduce : work.reduces[stage]) {
      labels.push_back({TaskKind::InnerReduce,
                        Collective::AllReduce,
                        op,
                        {},
                        reduce.task.group.front(),
                        {},
                        static_cast<std::int32_t>(reduce.task.group.size()),
                        static_cast<std::int32_t>(stage),
                        reduce.task.size,
                        microbatch});
    }
  }
}

}  // namespace

TaskGraphBuilder::TaskGraphBuilder(const OperatorGraph& graph, const CostModel& costs,
                                   const PlanOptions& options)
    : graph_(graph),
      costs_(costs),
      options_(options),
      versions_(options.pipeline, options.microbatches),
      recomputation_(graph, versions_.trained() ? options.recompute : Recompute(), options.pipeline),
      backward_(graph, versions_.trained()),
      prices_([&costs] { return CommunicationPrices(costs); }),
      bound_(graph, layouts_, prices_),
      plans_(layouts_, prices_),
      updates_(costs, options_, layouts_),
      tasks_(graph.operators().size()),
      ways_(all_ways(options.pipeline)) {}

void TaskGraphBuilder::set_pipeline(std::optional<Pipeline> pipeline, Recompute recompute) {
  options_.pipeline = std::move(pipeline);
  options_.recompute = std::move(recompute);
  const bool trained = versions_.trained();
  versions_ = WeightVersions(options_.pipeline, options_.microbatches);
  recomputation_ =
      Recomputation(graph_, versions_.trained() ? options_.recompute : Recompute(), options_.pipeline);
  ways_ = all_ways(options_.pipeline);
  of_ways_.clear();
  if (versions_.trained() != trained) backward_ = BackwardUses(graph_, versions_.trained());
}

std::int32_t TaskGraphBuilder::stage_of(OperatorId op) const {
  return options_.pipeline ? options_.pipeline->stage_of[op.index()] : 0;
}

const BoundStrategy& TaskGraphBuilder::strategy_of(std::int32_t microbatch, const BoundStrategy& strategy) {
  if (ways_ == 1) return strategy;
  const auto way = static_cast<std::size_t>(microbatch % ways_) + 1;
  if (!of_ways_.empty() && of_ways_.front() == strategy) return of_ways_[way];
  std::vector<ParallelConfig> configs;
  for (const BoundOperator* b : strategy) configs.push_back(b->config);
  of_ways_ = {BoundStrategy(strategy)};
  for (std::int32_t w = 0; w < ways_; ++w)
    of_ways_.push_back(bind(configs_of_way(configs, *options_.pipeline, w, costs_.topology().num_devices())));
  return of_ways_[way];
}

// Labels of a single microbatch do not number it.
std::int32_t TaskGraphBuilder::labelled(std::int32_t microbatch) const {
  return options_.microbatches > 1 ? microbatch : -1;
}

BoundStrategy TaskGraphBuilder::bind(const Strategy& strategy) {
  BoundStrategy bound;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    stop_if_late();
    bound.push_back(bind(OperatorId(i), strategy[i]));
  }
  return bound;
}

bool TaskGraphBuilder::forget(Bytes most) {
  if (plans_.bytes() + layouts_.bytes() + bound_.bytes() <= most) return false;
  bound_.clear();
  plans_.clear();
  layouts_.clear();
  forget_derived();
  return true;
}

bool TaskGraphBuilder::forget_plans(Bytes most) {
  if (plans_.bytes() <= most) return false;
  plans_.clear();
  forget_derived();
  return true;
}

void TaskGraphBuilder::forget_derived() {
  of_ways_.clear();
  updates_.clear();
  num_wirings_ = 0;
  ++generation_;
}

void TaskGraphBuilder::build(const BoundStrategy& strategy, TaskGraph& out, Labels labels) {
  build(strategy, out, labels, options_.microbatches);
}

namespace {

std::size_t bytes_of(const TaskGraph& tasks) {
  return tasks.dag.bytes() + tasks.dag.building_bytes() + tasks.labels.size() * sizeof(TaskLabel);
}

std::string graph_text(std::int32_t microbatches, const Topology& topology) {
  return fmt::format("the task graph of {} microbatch{} on {} device{}", microbatches,
                     microbatches == 1 ? "" : "es", topology.num_devices(),
                     topology.num_devices() == 1 ? "" : "s");
}

std::string smaller_graph(std::int32_t microbatches) {
  return fmt::format("Take fewer {}devices, or a model of fewer operators",
                     microbatches > 1 ? "microbatches (--microbatches), fewer " : "");
}

template <class Build>
void build_with_memory(const TaskGraph& out, std::int32_t microbatches, const Topology& topology,
                       Build build) {
  with_memory(
      [&] {
        return out_of_memory(
            fmt::format("building {} ({} tasks so far, {})", graph_text(microbatches, topology),
                        out.dag.num_tasks(), pretty(Bytes(static_cast<std::int64_t>(bytes_of(out))))),
            smaller_graph(microbatches));
      },
      build);
}

// After the first of the microbatches, which all have as many tasks.
void require_room(const TaskGraph& first, std::int32_t microbatches, const Topology& topology) {
  constexpr double kLittle = 256e6;  // not worth asking the system
  const double tasks = static_cast<double>(first.dag.num_tasks()) * microbatches;
  const double bytes = static_cast<double>(bytes_of(first)) * microbatches;
  const std::string what =
      fmt::format("{} has about {:.0f} tasks, which need {}", graph_text(microbatches, topology), tasks,
                  pretty(Bytes(static_cast<std::int64_t>(bytes))));
  if (tasks > INT32_MAX)
    throw InputError(
        fmt::format("{}; allowed: up to {} tasks. {}", what, INT32_MAX, smaller_graph(microbatches)));
  if (bytes < kLittle) return;
  const std::optional<MemoryLimit> limit = memory_limit();
  if (!limit || bytes <= static_cast<double>((limit->left + limit->taken).value)) return;
  throw OutOfMemory(
      fmt::format("out of memory: {}; {}. {}", what, limit->str(), smaller_graph(microbatches)));
}

}  // namespace

void TaskGraphBuilder::build(const BoundStrategy& strategy, TaskGraph& out, Labels labels,
                             std::int32_t microbatches) {
  build_with_memory(out, microbatches, costs_.topology(), [&] {
    const PipelineOrder order = order_of(strategy, microbatches);
    expand(strategy, out, labels, microbatches, order);
    if (options_.microbatches > 1 || options_.pipeline) order_steps(strategy, order, false);
    out.dag.finish();
  });
}

void TaskGraphBuilder::build_last(const BoundStrategy& strategy, TaskGraph& out, const PipelineOrder& left,
                                  std::int32_t microbatches) {
  build_with_memory(out, microbatches, costs_.topology(), [&] {
    expand(strategy, out, Labels::Leave, microbatches, left);
    order_steps(strategy, left, true);
    out.dag.finish();
  });
}

namespace {

// Folded graphs leave out edges that others imply. A device's tasks of one step come after those of the step
// before, so what waits for the weight gradients of all microbatches need only wait for the last ones. By
// stage: those of the last steps that run backward_input and backward_weight.
std::vector<std::pair<std::int32_t, std::int32_t>> last_backward(const PipelineOrder& order,
                                                                 std::size_t stages) {
  std::vector<std::pair<std::int32_t, std::int32_t>> last(stages, {0, 0});
  for (const std::vector<PipelineStep>& steps : order.steps) {
    for (const PipelineStep& step : steps) {
      auto& [input, weight] = last[static_cast<std::size_t>(step.stage)];
      const bool both = step.kind == StepKind::Backward;
      if (both || step.kind == StepKind::BackwardInput) input = step.microbatch;
      if (both || step.kind == StepKind::BackwardWeight) weight = step.microbatch;
    }
  }
  return last;
}

}  // namespace

void TaskGraphBuilder::build_unordered(const BoundStrategy& strategy, TaskGraph& out) {
  build_with_memory(out, 1, costs_.topology(), [&] {
    expand(strategy, out, Labels::Leave, 1, {});
    out.dag.finish();
  });
}

void TaskGraphBuilder::expand(const BoundStrategy& strategy, TaskGraph& out, Labels labels,
                              std::int32_t microbatches, const PipelineOrder& order) {
  out.clear();
  out_ = &out;
  labels_ = labels == Labels::Make;
  built_microbatches_ = microbatches;
  num_wirings_ = 0;
  barriers_.clear();
  gates_.clear();
  version_gates_.clear();
  const std::size_t ops = graph_.operators().size();
  if (tasks_.size() < ops * static_cast<std::size_t>(microbatches))
    tasks_.resize(ops * static_cast<std::size_t>(microbatches));
  if (folding_) {
    const std::int32_t stages = options_.pipeline ? options_.pipeline->num_stages() : 1;
    last_backward_ = last_backward(order, static_cast<std::size_t>(stages));
  }
  for (microbatch_ = 0; microbatch_ < microbatches; ++microbatch_) {
    const BoundStrategy& now = strategy_of(microbatch_, strategy);
    for (std::size_t i = 0; i < ops; ++i) {
      stop_if_late();
      add_operator(OperatorId(i), *now[i]);
    }
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      stop_if_late();
      wire_forward(TensorId(t), now);
    }
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      stop_if_late();
      wire_backward(TensorId(t), now);
    }
    if (recomputation_.any()) order_recompute(now);
    if (versions_.several()) add_version_gates(now);
    if (microbatch_ == 0) {
      tasks_of_one_microbatch_ = out.dag.num_tasks();
      require_room(out, microbatches, costs_.topology());
    }
    for (std::size_t i = 0; i < ops && versions_.several(); ++i) {
      const std::int32_t every = versions_.every(stage_of(OperatorId(i))), next = microbatch_ + 1;
      if (next % every == 0 || next == microbatches) update_weights(OperatorId(i), strategy);
    }
    if (microbatch_ < std::max(ways_, versions_.period())) block_ = {microbatch_ + 1, out.dag.num_tasks()};
  }
  if (versions_.several() || (folding_ && folding_->is_of_steps())) return;
  for (std::size_t i = 0; i < ops; ++i) {
    stop_if_late();
    update_weights(OperatorId(i), strategy);
  }
}

void TaskGraphBuilder::add_operator(OperatorId op, const BoundOperator& bound) {
  OperatorTasks& tasks =
      tasks_[static_cast<std::size_t>(microbatch_) * graph_.operators().size() + op.index()];
  tasks = {};
  tasks.forward = add_pass(op, bound, TaskKind::Forward, bound.forward);
  if (versions_.trained()) {
    tasks.backward_input = add_pass(op, bound, TaskKind::BackwardInput, bound.backward_input);
    tasks.backward_weight = add_pass(op, bound, TaskKind::BackwardWeight, bound.backward_weight);
  }
  if (recomputation_.again(op)) tasks.recompute = add_pass(op, bound, TaskKind::Recompute, bound.forward);
  if (!folding_ || !options_.pipeline || tasks.recompute.valid())
    return connect_operator(out_->dag, bound, tasks);
  // The order of steps makes backward wait for forward.
  connect_stages(out_->dag, bound, bound.forward, tasks.forward);
  connect_stages(out_->dag, bound, bound.backward_input, tasks.backward_input);
  connect_stages(out_->dag, bound, bound.backward_weight, tasks.backward_weight);
}

TaskId TaskGraphBuilder::add_pass(OperatorId op, const BoundOperator& bound, TaskKind kind,
                                  const PassWork& work) {
  const TaskId first = pipesim::add_pass(out_->dag, op, bound, kind, work, microbatch_);
  if (labels_ && first.valid()) label_pass(op, bound, kind, work, labelled(microbatch_), out_->labels);
  return first;
}

PipelineOrder TaskGraphBuilder::order_of(const BoundStrategy& strategy, std::int32_t microbatches) const {
  const std::size_t devices = costs_.topology().num_devices();
  if (!options_.pipeline) return order_without_stages(microbatches, devices);
  std::vector<ParallelConfig> configs;
  for (const BoundOperator* b : strategy) configs.push_back(b->config);
  return pipeline_order(configs, *options_.pipeline, microbatches, devices, &schedules_);
}

void TaskGraphBuilder::order_steps(const BoundStrategy& strategy, const PipelineOrder& order, bool begun) {
  std::vector<std::vector<OperatorShard>> shards(order.group_of.size());
  std::vector<const BoundStrategy*> strategies;
  for (std::int32_t way = 0; way < std::min(ways_, built_microbatches_); ++way) {
    strategies.push_back(&strategy_of(way, strategy));
    add_shards(*strategies.back(), way, shards);
  }
  std::vector<TaskId> done(shards.size());  // of a pipeline: the last barriers
  for (std::size_t d = 0; d < shards.size(); ++d) {
    if (order.group_of[d] < 0 || shards[d].empty()) continue;
    struct Tasks {
      TaskGraphBuilder& builder;
      DeviceId device;
      TaskDag& dag;
      [[nodiscard]] const OperatorTasks& of(OperatorId op, std::int32_t way) const {
        return builder.tasks_of(op, way);
      }
      [[nodiscard]] TaskId at(TaskId task, std::int32_t microbatch) const {
        return builder.in_microbatch(task, microbatch);
      }
      [[nodiscard]] std::int32_t stage_of(OperatorId op) const { return builder.stage_of(op); }
      TaskId add_barrier(std::size_t step, std::int32_t microbatch) {
        return builder.add_barrier(device, step, microbatch);
      }
      TaskId enter(const PipelineStep& step, TaskId before) {
        return builder.wait_for_version(step, device, before);
      }
    };
    const TaskId first_barrier(out_->dag.num_tasks());
    const std::vector<PipelineStep>& steps = order.steps[static_cast<std::size_t>(order.group_of[d])];
    const TaskId before = begun ? add_barrier(DeviceId(d), steps.size(), 0) : TaskId();
    done[d] = StepOrder(Tasks{*this, DeviceId(d), out_->dag}, strategies)
                  .connect(shards[d], steps, order.together, options_.pipeline.has_value(), before);
    if (versions_.several()) update_between_steps(DeviceId(d), steps, first_barrier);
  }
  if (!options_.pipeline || versions_.several()) return;
  update_after_steps(*this, strategy, done,
                     [&](TaskId last, TaskId update) { out_->dag.add_edge(last, update); });
}

TaskId TaskGraphBuilder::add_barrier(DeviceId device, std::size_t step, std::int32_t microbatch) {
  const TaskId barrier = out_->dag.add_task(barrier_key(step, device), 0, LaneId());
  barriers_.push_back({device, microbatch, barrier});
  if (labels_) {
    out_->labels.push_back({TaskKind::Barrier,
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

}  // namespace pipesim
