#pragma once

#include <optional>
#include <span>
#include <vector>

#include "taskgraph/binding/backward_uses.h"
#include "taskgraph/binding/bound_operators.h"
#include "taskgraph/binding/weight_updates.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/moving/communication_plan_table.h"
#include "taskgraph/plan/plan.h"
#include "taskgraph/plan/weight_versions.h"

namespace pipesim {

/// Expands strategies into task graphs. What depends on content alone (operator and config, pair of layouts)
/// is computed once and kept: the next strategy costs what its tasks cost. It refers to graph and cost model.
///
/// What is computed once may be asked for by any number of threads, none of which computes under a lock:
/// bind() and all that is said to be of one tensor or operator. The rest is not thread-safe.
class TaskGraphBuilder {
 public:
  TaskGraphBuilder(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);

  /// The config must be legal (see illegal()). The address stays valid until forget().
  const BoundOperator* bind(OperatorId op, const ParallelConfig& config) { return bound_.bind(op, config); }
  BoundStrategy bind(const Strategy& strategy);

  enum class Labels : std::uint8_t { Leave, Make };
  void build(const BoundStrategy& strategy, TaskGraph& out, Labels labels);
  /// As if the plan had so many microbatches: up to as many as it has, or with several versions of weights up
  /// to kMostMicrobatches, in whole changes. Their tasks come first, one after the other, in the same order
  /// in each (see block()); then those of no microbatch, then barriers.
  void build(const BoundStrategy& strategy, TaskGraph& out, Labels labels, std::int32_t microbatches);
  /// Of a pipeline's steps that are left; microbatches count from 0, a device's first barrier is before them.
  void build_last(const BoundStrategy&, TaskGraph& out, const PipelineOrder& left, std::int32_t microbatches);
  /// Graphs that are built next are of the folding's strategy, see folding.h; nullptr: of all devices.
  void fold_by(const class Folding* folding) { folding_ = folding; }
  void build_unordered(const BoundStrategy& strategy, TaskGraph& out);  ///< a microbatch without barriers
  /// Forget what fills the memory when it is more than `most` bytes; true when they did. Results do not
  /// change. wirings() becomes invalid, and after forget() all that bind() and layouts() ever returned, too.
  bool forget_plans(Bytes most);
  bool forget(Bytes most);
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  ///< how often it forgot
  /// Of the strategy built last.
  [[nodiscard]] std::span<const Wiring> wirings() const { return {wirings_.data(), num_wirings_}; }
  [[nodiscard]] std::int32_t stage_of(OperatorId op) const;
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op, std::int32_t microbatch = 0) const {
    return tasks_[static_cast<std::size_t>(microbatch) * graph_.operators().size() + op.index()];
  }
  [[nodiscard]] std::span<const StepBarrier> barriers() const { return barriers_; }
  [[nodiscard]] std::span<const Gate> gates() const { return gates_; }
  [[nodiscard]] std::int32_t built_microbatches() const { return built_microbatches_; }
  [[nodiscard]] std::size_t tasks_of_one_microbatch() const { return tasks_of_one_microbatch_; }
  [[nodiscard]] TaskBlock block() const { return block_; }
  /// A task of the first microbatch that goes the same way, in another.
  [[nodiscard]] TaskId in_microbatch(TaskId of_first, std::int32_t microbatch) const;
  [[nodiscard]] const WeightVersions& versions() const { return versions_; }
  /// In how many ways microbatches go through the devices in turn; the strategy of those that go as this one.
  [[nodiscard]] std::int32_t ways() const { return ways_; }
  const BoundStrategy& strategy_of(std::int32_t microbatch, const BoundStrategy& strategy);
  /// The steps of its devices if it had so many microbatches.
  [[nodiscard]] PipelineOrder order_of(const BoundStrategy& strategy, std::int32_t microbatches) const;
  /// The layouts whose sum a wiring moves, in the order of Wiring::source_terms.
  [[nodiscard]] std::vector<LayoutId> terms_of(const Wiring& wiring, const BoundStrategy& strategy);
  /// What the wiring's tasks move, see CommunicationPlan::term_by_term and CommunicationTask::step.
  [[nodiscard]] std::vector<Redistribution> redistributions_of(const Wiring&, const BoundStrategy&);
  [[nodiscard]] DataType type_of(const Wiring& wiring) const;  ///< of the elements that travel
  [[nodiscard]] const BackwardUses& backward() const { return backward_; }
  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const CostModel& costs() const { return costs_; }
  [[nodiscard]] const PlanOptions& options() const { return options_; }
  /// For the graphs that are built next; all that is remembered is the same for all of them.
  void set_pipeline(std::optional<Pipeline> pipeline, Recompute recompute);
  [[nodiscard]] const Recomputation& recomputation() const { return recomputation_; }
  [[nodiscard]] const LayoutTable& layouts() const { return layouts_; }
  // Of one tensor or operator under a strategy; remembered by content, and valid until it forgets.
  /// The distinct layouts in which its gradient is made, in the order of BackwardUses::gradient_makers().
  void list_gradient_terms(TensorId tensor, const BoundStrategy& strategy, LayoutIds& out);
  /// From the sum of `terms` (data or gradients of an activation) to `target`.
  const CommunicationPlan& transfer_plan(TensorId tensor, std::span<const LayoutId> terms, LayoutId target);
  /// Of a trained weight's gradient to its home.
  const CommunicationPlan& sync_plan(TensorId weight, const BoundStrategy& strategy);
  [[nodiscard]] CommunicationPlans::Setting setting(TensorId tensor, TaskKind kind) const;
  [[nodiscard]] const CommunicationPlans& plans() const { return plans_; }
  /// Where a weight is kept: wherever a use needs a part of it.
  LayoutId home_of(TensorId weight, const BoundStrategy& strategy);
  const OwnedUpdates& update_work(OperatorId owner, const BoundStrategy& strategy);
  /// What a device keeps for good: weights, accumulated gradients, optimizer state.
  [[nodiscard]] std::vector<WeightMemory> permanent_memory(const BoundStrategy& strategy);

 private:
  void expand(const BoundStrategy&, TaskGraph&, Labels, std::int32_t microbatches, const PipelineOrder&);
  void add_operator(OperatorId op, const BoundOperator& bound);
  TaskId add_pass(OperatorId op, const BoundOperator& bound, TaskKind kind, const PassWork& work);
  void plan_forward(TensorId tensor, const BoundStrategy& strategy);
  void wire_forward(TensorId tensor, const BoundStrategy& strategy);
  void wire_again(std::size_t forward_wiring, const BoundStrategy& strategy);
  void wire_backward(TensorId tensor, const BoundStrategy& strategy);
  void update_weights(OperatorId owner, const BoundStrategy& strategy);
  void order_steps(const BoundStrategy& strategy, const PipelineOrder& order, bool begun);
  TaskId add_barrier(DeviceId device, std::size_t step, std::int32_t microbatch);
  void add_version_gates(const BoundStrategy& strategy);
  TaskId wait_for_version(const PipelineStep& step, DeviceId device, TaskId before);
  void update_between_steps(DeviceId device, std::span<const PipelineStep> steps, TaskId first_barrier);
  void order_recompute(const BoundStrategy& strategy);
  TaskId add_gate(std::size_t segment, DeviceId device, TaskId previous, std::span<const TaskId> awaited);
  template <class Visit>
  void visit_sources(const Wiring& wiring, const BoundStrategy& strategy, Visit visit);
  Wiring& begin_wiring(TaskKind kind, TensorId tensor);
  void list_sources(Wiring& wiring, const BoundStrategy& strategy);
  void add_transfers(Wiring& wiring);
  void connect_sources(const Wiring& wiring, const BoundStrategy& strategy);
  void connect_readers(const Wiring& wiring, TaskId first_reader,
                       std::span<const std::int32_t> reader_of_device, const BoundStrategy& strategy);
  [[nodiscard]] std::pair<std::int32_t, std::int32_t> microbatches(const Wiring&, OperatorId source) const;
  [[nodiscard]] std::int32_t labelled(std::int32_t microbatch) const;
  void forget_derived();

  const OperatorGraph& graph_;
  const CostModel& costs_;
  PlanOptions options_;
  WeightVersions versions_;
  Recomputation recomputation_;
  BackwardUses backward_;
  std::vector<BoundStrategy> of_ways_;  // a strategy, then those of the microbatches that go each way
  LayoutTable layouts_;
  CommunicationPricesByThread prices_;
  BoundOperators bound_;
  CommunicationPlans plans_;
  WeightUpdates updates_;
  std::vector<OperatorTasks> tasks_;  // per microbatch and operator
  mutable MadeSchedules schedules_;
  std::vector<StepBarrier> barriers_;
  std::vector<Gate> gates_;
  std::vector<TaskId> version_gates_;  // by microbatch, stage, device, way
  std::vector<Wiring> wirings_;
  std::size_t num_wirings_ = 0, tasks_of_one_microbatch_ = 0;
  TaskBlock block_;
  std::uint64_t generation_ = 0;
  LayoutIds terms_;                                                   // scratch: distinct layouts
  std::int32_t ways_ = 1, microbatch_ = 0, built_microbatches_ = 0;   // microbatch_: being built
  std::vector<std::pair<std::int32_t, std::int32_t>> last_backward_;  // folded, per stage: see there
  TaskGraph* out_ = nullptr;
  const class Folding* folding_ = nullptr;
  bool labels_ = false;
};

}  // namespace pipesim
