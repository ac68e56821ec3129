#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/expansion/host_tasks.h"
#include "taskgraph/expansion/input_gathers.h"
#include "taskgraph/expansion/pair_gates.h"
#include "taskgraph/expansion/version_gates.h"
#include "taskgraph/expansion/weight_gathers.h"

namespace pipesim {

/// Expands one strategy: adds all tasks and edges to an ExpandedStrategy that has begun.
class StrategyExpander {
 public:
  /// `folding`: see ExpansionSetting. `out` must outlive it.
  StrategyExpander(ExpandedStrategy& out, Labels labels, const Folding* folding);

  /// Adds operators, transfers and updates of all microbatches. `order`: the steps of the devices.
  void add_microbatches(const PipelineOrder& order);
  /// Adds barriers between the steps of each device.
  void order_steps(const PipelineOrder& order);

  /// A task that holds no lane. `label` says what it waits for, but for kind and device. `gathered`: see
  /// Gate.
  TaskId add_gate(TaskKey key, DeviceId device, const TaskLabel& label, OperatorId gathered = {},
                  Nanoseconds takes = 0, TaskKind kind = TaskKind::Barrier);
  /// A wiring that is not yet filled. Valid until the next one begins.
  Wiring& begin_wiring(TaskKind kind, TensorId tensor);
  /// Adds the tasks of the wiring's plan.
  void add_transfers(Wiring& wiring);
  [[nodiscard]] bool blocks_stages(const Wiring& wiring) const;
  /// Says that what the wiring moves is not kept for backward.
  void stops_after_forward(std::size_t wiring) { out_.wirings_[wiring].read_in = ReadIn::Forward; }
  /// Adds the tasks of a wiring of the microbatch once more, for readers after forward. They wait for what
  /// makes the data for these. `share`: see Wiring.
  Wiring& move_again(std::size_t forward_wiring, std::vector<UseRef> readers, double share = 1);
  /// Adds edges to the tasks first_reader + shard: from the transfers that their devices receive, and from
  /// the sources whose data lies there already.
  void connect_readers(const Wiring& wiring, TaskId first_reader,
                       std::span<const std::int32_t> reader_of_device);
  /// Notes what the collectives of a wiring take from the compute of their devices (Runtime::interference).
  /// Those of a group (any number) take it together.
  void interfere(const Wiring& wiring, std::uint64_t group);
  /// The same with a share for each task.
  void interfere(const Wiring& wiring, std::uint64_t group,
                 const std::function<double(const CommunicationTask&)>& share_of);
  /// Adds a task for each group and device that was noted since the last call. `wait_for_start` makes it wait
  /// for what its collectives wait for on the device.
  void add_interferences(
      const std::function<void(std::uint64_t group, DeviceId, TaskId)>& wait_for_start = {});
  /// Makes each device do the wiring's tasks after those that were queued before, as on a stream of its own.
  /// Tasks of several rounds wait within each round.
  void queue(const Wiring& wiring, StreamEnds& streams);
  /// Returns streams on which nothing is queued.
  [[nodiscard]] StreamEnds empty_streams() const;
  /// The plan on the devices that the folding keeps.
  [[nodiscard]] const CommunicationPlan& folded(const CommunicationPlan& plan) const;
  /// By task of the plan: the number of devices that take part, those that the folding leaves out among them.
  [[nodiscard]] std::vector<std::int32_t> group_sizes(const CommunicationPlan& plan) const;
  [[nodiscard]] const ExpandedStrategy& made() const { return out_; }
  [[nodiscard]] TaskDag& dag() { return out_.graph_.dag; }
  /// Each stage with each device that has a part of it, ascending.
  [[nodiscard]] std::vector<std::pair<std::int32_t, DeviceId>> places_of_stages(
      const BoundStrategy& strategy) const;
  /// The microbatch's number for labels: none where there is only one microbatch.
  [[nodiscard]] std::int32_t labelled(std::int32_t microbatch) const;

 private:
  [[nodiscard]] bool blocks_are_alike() const;
  void repeat_first_block();
  void add_operator(OperatorId op, const BoundOperator& bound);
  TaskId add_pass(OperatorId op, const BoundOperator& bound, TaskKind kind, const PassWork& work);
  void add_updates(OperatorId owner);
  [[nodiscard]] bool reduces_after_steps() const;
  [[nodiscard]] bool reduces_after_backward() const;
  void wait_for_backward(const Wiring& sync);
  void find_last_passes();
  void add_reduction_gates(const PipelineOrder& order);
  void reduce_after(const PipelineOrder& order, std::span<const TaskId> done);
  void reduce_on_streams();
  void interfere_with_backward(const Wiring& sync);
  void take_multiprocessors(const Wiring& wiring);
  void wait_for_makers(const Wiring& wiring, std::uint64_t group);
  void update_together();
  std::size_t sync_gradient(TensorId weight, std::int32_t microbatch);
  TaskId add_barrier(DeviceId device, std::size_t step, std::span<const PipelineStep> behind);

  void wire_forward(TensorId tensor);
  void plan_forward(TensorId tensor);
  void wire_again(std::size_t forward_wiring);
  void wire_backward(TensorId tensor);
  void list_sources(Wiring& wiring);
  void run_beside_products(Wiring& wiring) const;
  void connect_sources(const Wiring& wiring);
  template <class Visit>
  void visit_sources(const Wiring& wiring, Visit visit);
  [[nodiscard]] std::pair<std::int32_t, std::int32_t> microbatches_of(const Wiring& wiring,
                                                                      std::size_t number) const;
  [[nodiscard]] OperatorTasks& tasks_of(OperatorId op, std::int32_t microbatch) {
    return out_.tasks_[static_cast<std::size_t>(microbatch) * out_.operators_ + op.index()];
  }
  [[nodiscard]] const BoundStrategy& strategy_of(TaskKind kind) const;

  ExpandedStrategy& out_;
  const PlanContents& contents_;
  const OperatorGraph& graph_;
  const bool labels_;
  const Folding* folding_;
  VersionGates version_gates_;
  PairGates pair_gates_;
  WeightGathers gathers_;
  InputGathers input_gathers_;
  HostTasks host_tasks_;
  const BoundStrategy* now_;     // on the devices of microbatch_
  std::int32_t microbatch_ = 0;  // being added
  // Folded: by stage and way, the microbatches of its last backward steps, see last_backward().
  std::vector<std::pair<std::int32_t, std::int32_t>> last_backward_;
  std::map<TensorId, std::vector<std::size_t>> syncs_;  // wirings, of weights reduced after each microbatch
  std::vector<std::size_t> syncs_once_;                 // wirings, of weights reduced once an iteration
  std::map<std::vector<std::int32_t>, TaskId> reduction_gates_;  // by groups of the pipeline, ascending
  std::vector<std::pair<std::size_t, TaskId>> reductions_;       // wirings behind them
  std::vector<TaskId> last_passes_;                              // by device, see find_last_passes()
  struct Interference {
    double time = 0;  // ns
    TaskKey key;
    TaskId first;  // collective
    std::vector<TaskId> makers;
  };
  std::map<std::pair<std::uint64_t, DeviceId>, Interference> interferences_;  // by group
  std::vector<std::int32_t> layer_of_;                                        // by operator
  LayoutIds terms_;                                                           // scratch: distinct layouts
};

}  // namespace pipesim
