#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/moving/redistribution.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

// Judges a task graph with labels by following data: every compute task must come after tasks that hold
// every part and every addend of what it reads, over transfers of that very tensor. Shares no code with the
// wiring.
class Dataflow {
 public:
  /// `state_of`: the layout of a weight's state; without it, what the weight's uses need.
  Dataflow(const OperatorGraph& graph, const Strategy& strategy, const TaskGraph& tasks,
           const PlanOptions& options = {}, std::function<const Layout&(TensorId)> state_of = {})
      : state_of_(std::move(state_of)),
        sharding_(options.state_sharding),
        graph_(graph),
        ways_(strategies(strategy, options.pipeline)),
        tasks_(tasks),
        microbatches_(options.microbatches),
        segment_of_(recompute_segments(graph, options.recompute, options.pipeline)),
        stage_of_(options.pipeline ? options.pipeline->stage_of
                                   : std::vector<std::int32_t>(segment_of_.size(), 0)),
        before_(tasks.dag.num_tasks()) {
    for (std::size_t t = 0; t < before_.size(); ++t) {
      for (const TaskId next : tasks.dag.successors(TaskId(t))) before_[next.index()].push_back(TaskId(t));
      const TaskLabel& l = tasks.labels[t];
      if (is_communication(l.kind) || l.kind == TaskKind::Barrier) continue;
      std::vector<TaskId>& stages = compute_[{l.kind, l.op, l.device, std::max(l.microbatch, 0)}];
      if (stages.size() <= static_cast<std::size_t>(l.stage))
        stages.resize(static_cast<std::size_t>(l.stage) + 1);
      stages[static_cast<std::size_t>(l.stage)] = TaskId(t);
    }
  }

  /// Passes that waited for a second transfer of what was made once. After faults().
  [[nodiscard]] int gathered_again() const { return gathered_again_; }
  /// What is missing, in words; empty when the graph is right.
  std::vector<std::string> faults() {
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      const TensorId tensor(t);
      if (graph_.tensor(tensor).kind == TensorKind::Weight) check_update(tensor);
      if (!graph_.tensor(tensor).producer.valid()) continue;
      for (std::int32_t m = 0; m < microbatches_; ++m) {
        check_forward(tensor, m);
        check_again(tensor, m);
        check_gathered_again(tensor, m);
        check_backward(tensor, m);
      }
    }
    for (const auto& [key, stages] : compute_) check_own_forward(key, stages.front());
    return std::move(faults_);
  }

 private:
  using Key = std::tuple<TaskKind, OperatorId, DeviceId, std::int32_t>;  // with microbatch
  struct Source {
    OperatorId op;
    Layout layout;
    TaskKind kind;
    std::int32_t microbatch;
  };

  const TensorUse& use(UseRef ref) const { return graph_.op(ref.op).uses[static_cast<std::size_t>(ref.use)]; }
  static std::vector<Strategy> strategies(const Strategy& strategy, const std::optional<Pipeline>& pipeline) {
    if (!pipeline || ways_of(*pipeline) == 1) return {strategy};
    std::size_t devices = 0;
    for (const ParallelConfig& config : strategy) {
      for (const DeviceId d : config.devices) devices = std::max(devices, d.index() + 1);
    }
    std::vector<Strategy> ways;
    for (std::int32_t way = 0; way < ways_of(*pipeline); ++way)
      ways.push_back(configs_of_way(strategy, *pipeline, way, devices));
    return ways;
  }
  const ParallelConfig& config(OperatorId op, std::int32_t microbatch = 0) const {
    return ways_[static_cast<std::size_t>(microbatch) % ways_.size()][op.index()];
  }
  // The first microbatch of each way.
  std::int32_t first_ones() const { return std::min(microbatches_, static_cast<std::int32_t>(ways_.size())); }
  bool has(TaskKind kind, OperatorId op, DeviceId device) const {
    return compute_.contains({kind, op, device, 0});
  }

  UseRef output(TensorId tensor) const {
    const OperatorId op = graph_.tensor(tensor).producer;
    const std::vector<TensorUse>& uses = graph_.op(op).uses;
    std::int32_t u = 0;
    while (uses[static_cast<std::size_t>(u)].tensor != tensor ||
           uses[static_cast<std::size_t>(u)].role != Role::Output)
      ++u;
    return {op, u};
  }

  // The gradient of this use is computed: something upstream has weights, and the loss depends on the
  // operator.
  bool gives_gradient(UseRef ref) const {
    const Role role = use(ref).role;
    if ((role != Role::Input && role != Role::Weight) || !graph_.wants_gradient(use(ref).tensor))
      return false;
    for (const TensorUse& u : graph_.op(ref.op).uses) {
      if (u.role == Role::Output && graph_.gets_gradient(u.tensor)) return true;
    }
    return false;
  }

  std::vector<Source> gradients(TensorId tensor, std::int32_t microbatch) const {
    std::vector<Source> sources;
    for (const UseRef c : graph_.consumers(tensor)) {
      if (!gives_gradient(c)) continue;
      const DeviceId first = config(c.op).devices.front();
      const bool weight = use(c).role == Role::Weight && has(TaskKind::BackwardWeight, c.op, first);
      sources.push_back({c.op, gradient_layout(graph_.op(c.op), use(c), config(c.op, microbatch)),
                         weight ? TaskKind::BackwardWeight : TaskKind::BackwardInput, microbatch});
    }
    return sources;
  }

  void check_forward(TensorId tensor, std::int32_t microbatch) {
    const UseRef producer = output(tensor);
    const Operator& op = graph_.op(producer.op);
    const std::vector<Source> sources{{producer.op,
                                       produced_layout(op, use(producer), config(producer.op, microbatch)),
                                       TaskKind::Forward, microbatch}};
    for (const UseRef c : graph_.consumers(tensor))
      check(tensor, TaskKind::ForwardTransfer, sources,
            required_layout(graph_.op(c.op), use(c), config(c.op, microbatch)), c.op, TaskKind::Forward,
            microbatch);
  }

  void check_backward(TensorId tensor, std::int32_t microbatch) {
    const UseRef producer = output(tensor);
    const Layout wanted =
        required_gradient_layout(graph_.op(producer.op), use(producer), config(producer.op, microbatch));
    for (const TaskKind pass : {TaskKind::BackwardInput, TaskKind::BackwardWeight}) {
      if (!has(pass, producer.op, config(producer.op).devices.front())) continue;
      check(tensor, TaskKind::BackwardTransfer, gradients(tensor, microbatch), wanted, producer.op, pass,
            microbatch);
    }
  }

  bool has_backward(OperatorId op) const {
    const DeviceId first = config(op).devices.front();
    return has(TaskKind::BackwardInput, op, first) || has(TaskKind::BackwardWeight, op, first);
  }

  // The output of an operator in a segment is gone after forward, except for other segments and stages. Later
  // readers must get it from the operator's second run.
  void check_again(TensorId tensor, std::int32_t microbatch) {
    const UseRef producer = output(tensor);
    const std::int32_t segment = segment_of_[producer.op.index()];
    if (segment < 0) return;
    const Operator& op = graph_.op(producer.op);
    const std::vector<Source> sources{{producer.op,
                                       produced_layout(op, use(producer), config(producer.op, microbatch)),
                                       TaskKind::Recompute, microbatch}};
    for (const UseRef c : graph_.consumers(tensor)) {
      const std::int32_t of_reader = segment_of_[c.op.index()];
      if (of_reader != kNoSegment && of_reader != segment) continue;
      if (stage_of_[c.op.index()] != stage_of_[producer.op.index()]) continue;
      const bool again = has(TaskKind::Recompute, c.op, config(c.op).devices.front());
      if (!again && !(use(c).saved && has_backward(c.op))) continue;
      const Layout read = required_layout(graph_.op(c.op), use(c), config(c.op, microbatch));
      for (const TaskKind pass : {TaskKind::Recompute, TaskKind::BackwardInput, TaskKind::BackwardWeight}) {
        if (again ? pass == TaskKind::Recompute : has(pass, c.op, config(c.op).devices.front()))
          check(tensor, TaskKind::RecomputeTransfer, sources, read, c.op, pass, microbatch);
      }
    }
  }

  // A reader after forward that waits for a second transfer of a tensor that was made once must get all of
  // it.
  void check_gathered_again(TensorId tensor, std::int32_t microbatch) {
    const UseRef producer = output(tensor);
    if (has(TaskKind::Recompute, producer.op, config(producer.op).devices.front())) return;
    const std::vector<Source> sources{
        {producer.op, produced_layout(graph_.op(producer.op), use(producer), config(producer.op, microbatch)),
         TaskKind::Forward, microbatch}};
    for (const UseRef c : graph_.consumers(tensor)) {
      const Layout read = required_layout(graph_.op(c.op), use(c), config(c.op, microbatch));
      for (const TaskKind pass : {TaskKind::Recompute, TaskKind::BackwardInput, TaskKind::BackwardWeight}) {
        const auto reader = compute_.find({pass, c.op, config(c.op, microbatch).devices.front(), microbatch});
        if (reader == compute_.end()) continue;
        const bool waits = std::ranges::any_of(before_[reader->second.front().index()], [&](TaskId b) {
          const TaskLabel& l = tasks_.labels[b.index()];
          return l.kind == TaskKind::RecomputeTransfer && l.tensor == tensor;
        });
        if (!waits) continue;
        ++gathered_again_;
        check(tensor, TaskKind::RecomputeTransfer, sources, read, c.op, pass, microbatch);
      }
    }
  }

  void check_update(TensorId weight) {
    std::vector<Source> sources;
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      for (Source& s : gradients(weight, m)) sources.push_back(std::move(s));
    }
    if (sources.empty()) return;
    if (sharding_.any()) {
      check(weight, TaskKind::GradientSync, sources, state_of_(weight), graph_.consumers(weight).front().op,
            TaskKind::Update, 0);
      return check_gathers(weight);
    }
    for (std::int32_t m = 0; m < first_ones(); ++m) {
      for (const UseRef c : graph_.consumers(weight)) {
        const Layout read = required_layout(graph_.op(c.op), use(c), config(c.op, m));
        check(weight, TaskKind::GradientSync, sources, read, graph_.consumers(weight).front().op,
              TaskKind::Update, 0);
      }
    }
  }

  // An operator that needs more of a divided weight than its device keeps must wait for a gather of it; or
  // the device must get the updated weight between iterations.
  void check_gathers(TensorId weight) {
    for (std::int32_t m = 0; m < first_ones(); ++m) check_gathers(weight, m);
  }

  // Checks those of the way that this microbatch goes.
  void check_gathers(TensorId weight, std::int32_t first) {
    const Layout& state = state_of_(weight);
    for (const UseRef c : graph_.consumers(weight)) {
      const Layout read = required_layout(graph_.op(c.op), use(c), config(c.op, first));
      for (const LayoutEntry& e : read.entries()) {
        std::vector<Box> kept;
        for (const LayoutEntry& s : state.entries_on(e.device)) kept.push_back(state.box(s));
        if (covered(read.box(e), kept)) continue;
        if (!sharding_.gathers_before_use()) {
          check_updated(weight, e.device, read.box(e));
          continue;
        }
        // Without a gather for each use, later microbatches run after the first one.
        const std::int32_t end = sharding_.gathers_to_use() ? microbatches_ : first + 1;
        for (std::int32_t m = first; m < end; ++m) {
          check_gathered(weight, {TaskKind::Forward, c.op, e.device, m});
          if (sharding_.keeps_gathered() || !sharding_.gathers_to_use()) continue;
          for (const TaskKind pass : {TaskKind::BackwardInput, TaskKind::BackwardWeight})
            check_gathered(weight, {pass, c.op, e.device, m});
        }
      }
    }
  }

  void check_gathered(TensorId weight, Key key) {
    const auto pass = compute_.find(key);
    if (pass == compute_.end()) return;
    // Where forward runs again, its second run may have waited for the weights of the backward pass.
    std::get<0>(key) = TaskKind::Recompute;
    const auto again = compute_.find(key);
    std::vector<TaskId> before = before_[pass->second.front().index()];
    if (pass->first != key && again != compute_.end() && std::get<0>(pass->first) != TaskKind::Forward) {
      const std::vector<TaskId>& earlier = before_[again->second.front().index()];
      before.insert(before.end(), earlier.begin(), earlier.end());
    }
    const bool waits = std::ranges::any_of(before, [&](TaskId b) {
      const TaskLabel& l = tasks_.labels[b.index()];
      return l.kind == TaskKind::WeightGather && l.tensor == weight;
    });
    if (!waits)
      faults_.push_back(fmt::format("{} of {} does not wait for its weights",
                                    name_of(std::get<0>(pass->first)), graph_.op(std::get<1>(key)).name));
  }

  // What comes to the device by the end must hold the box.
  void check_updated(TensorId weight, DeviceId device, const Box& box) {
    const OperatorId owner = graph_.consumers(weight).front().op;
    std::vector<Box> held;
    for (std::size_t t = 0; t < before_.size(); ++t) {
      const TaskLabel& l = tasks_.labels[t];
      if (l.kind != TaskKind::Barrier || l.op != owner || !l.tensor.valid() || l.device != device) continue;
      std::set<TaskId> reached;
      reach(TaskId(t), TaskKind::WeightGather, weight, reached);
      for (const LayoutEntry& e : state_of_(weight).entries()) {
        const auto update = compute_.find({TaskKind::Update, owner, e.device, 0});
        const bool own = e.device == device;
        if (update != compute_.end() && (own || reached.contains(update->second.front())))
          held.push_back(state_of_(weight).box(e));
      }
    }
    if (!covered(box, held))
      faults_.push_back(
          fmt::format("device {} does not get all of {}", device.value, graph_.tensor(weight).name));
  }

  void check(TensorId tensor, TaskKind transfer, const std::vector<Source>& sources, const Layout& wanted,
             OperatorId reader, TaskKind pass, std::int32_t microbatch) {
    for (const LayoutEntry& want : wanted.entries()) {
      const auto it = compute_.find({pass, reader, want.device, microbatch});
      if (it == compute_.end()) {
        faults_.push_back(fmt::format("{} has no {} on device {}", graph_.op(reader).name, name_of(pass),
                                      want.device.value));
        continue;
      }
      std::set<TaskId> reached;
      reach(it->second.front(), transfer, tensor, reached);
      for (const Source& s : sources) check_source(tensor, s, wanted.box(want), reached, it->second.front());
    }
  }

  // `reached` must hold, for each addend, all of it that lies in the box.
  void check_source(TensorId tensor, const Source& s, const Box& box, const std::set<TaskId>& reached,
                    TaskId reader) {
    for (std::int32_t a = 0; a < s.layout.num_addends(); ++a) {
      std::vector<Box> held;
      for (const LayoutEntry& e : s.layout.entries()) {
        const auto task = compute_.find({s.kind, s.op, e.device, s.microbatch});
        if (e.addend == a && task != compute_.end() && reached.contains(task->second.back()))
          held.push_back(s.layout.box(e));
      }
      for (const LayoutEntry& e : s.layout.entries()) {
        const std::optional<Box> needed = e.addend == a ? intersection(s.layout.box(e), box) : std::nullopt;
        if (!needed || covered(*needed, held)) continue;
        faults_.push_back(fmt::format("task {} lacks {} of {}, addend {}", reader.value, needed->str(),
                                      graph_.tensor(tensor).name, a));
      }
    }
  }

  // Collects the compute tasks from which data of this tensor comes to the task.
  void reach(TaskId task, TaskKind transfer, TensorId tensor, std::set<TaskId>& reached) const {
    for (const TaskId b : before_[task.index()]) {
      const TaskLabel& l = tasks_.labels[b.index()];
      if (!is_communication(l.kind)) {
        reached.insert(b);
      } else if (l.kind == transfer && l.tensor == tensor && reached.insert(b).second) {
        reach(b, transfer, tensor, reached);
      }
    }
  }

  // Backward must wait for the last run of forward. A second run must wait for the first one, and for all
  // that its device runs forward in the stage.
  void check_own_forward(const Key& key, TaskId first) {
    const auto [kind, op, device, microbatch] = key;
    if (kind == TaskKind::Recompute) {
      std::set<TaskId> waited;
      pass_barriers(first, waited);
      for (const auto& [other, stages] : compute_) {
        const auto [of_other, other_op, other_device, other_microbatch] = other;
        if (of_other != TaskKind::Forward || other_device != device || other_microbatch != microbatch)
          continue;
        if (stage_of_[other_op.index()] == stage_of_[op.index()] && !waited.contains(stages.back()))
          faults_.push_back(fmt::format("task {} runs again before forward is over", first.value));
      }
    }
    if (kind != TaskKind::BackwardInput && kind != TaskKind::BackwardWeight) return;
    const std::vector<TaskId>& before = before_[first.index()];
    const auto again = compute_.find({TaskKind::Recompute, op, device, microbatch});
    const std::vector<TaskId>& forward =
        again != compute_.end() ? again->second : compute_.at({TaskKind::Forward, op, device, microbatch});
    if (std::find(before.begin(), before.end(), forward.back()) != before.end()) return;
    faults_.push_back(fmt::format("task {} does not wait for its forward", first.value));
  }

  // Collects the tasks that the task waits for, directly or through barriers.
  void pass_barriers(TaskId task, std::set<TaskId>& waited) const {
    for (const TaskId b : before_[task.index()]) {
      if (waited.insert(b).second && tasks_.labels[b.index()].kind == TaskKind::Barrier)
        pass_barriers(b, waited);
    }
  }

  std::function<const Layout&(TensorId)> state_of_;
  StateSharding sharding_;
  const OperatorGraph& graph_;
  std::vector<Strategy> ways_;  // microbatches take them in turn
  const TaskGraph& tasks_;
  std::int32_t microbatches_;
  std::vector<std::int32_t> segment_of_, stage_of_;  // by operator
  std::vector<std::vector<TaskId>> before_;
  std::map<Key, std::vector<TaskId>> compute_;  // by stage
  std::vector<std::string> faults_;
  int gathered_again_ = 0;
};

}  // namespace pipesim
