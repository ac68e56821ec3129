#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/folding.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/expansion/task_graph.h"

namespace pipesim {

enum class Labels : std::uint8_t { Leave, Make };

/// Which part of a strategy is expanded, and how.
struct ExpansionSetting {
  Labels labels = Labels::Leave;
  /// The number of microbatches to expand instead of the plan's own; 0: the plan's own. At most the plan's
  /// own. Where there are several versions of weights, it may go up to kMostMicrobatches and must be a
  /// multiple of WeightVersions::period().
  std::int32_t microbatches = 0;
  /// Expands Folding::strategy(), which must be the strategy given; nullptr: all devices. Must outlive the
  /// expansion.
  const Folding* folding = nullptr;
};

/// A strategy expanded into tasks and edges, and which task does what.
///
/// Tasks of microbatches come first: one microbatch after the other, each in the same order (see block()).
/// Then come tasks that belong to no microbatch, then barriers.
///
/// One object may expand one strategy after another; each expansion starts afresh and reuses the memory.
/// PlanContents::forget_plans() and forget() make wirings() invalid.
class ExpandedStrategy {
 public:
  /// `contents` must outlive it. Nothing is expanded yet.
  explicit ExpandedStrategy(const PlanContents& contents);
  /// From now on it expands strategies of these contents, which must outlive it. What was expanded stays
  /// where they are a copy of those before.
  void set_contents(const PlanContents& contents);

  /// InputError when the graph would have more tasks than a TaskId can number; OutOfMemory when it would not
  /// fit into memory.
  void expand(const BoundStrategy& strategy, const ExpansionSetting& setting = {});
  /// Gives the tasks the times that PlanContents::reprice(), and reprice() of the folding (find_folding.h),
  /// have given to what they were made from. False where that is not enough, since durations follow from
  /// others (Runtime::tensor_overlap, interference) or from other HostTimes, or where tasks would hold other
  /// lanes: it must be expanded again then.
  [[nodiscard]] bool retime();
  /// Expands one microbatch, without barriers or labels.
  void expand_unordered(const BoundStrategy& strategy);

  [[nodiscard]] const PlanContents& contents() const { return *contents_; }
  [[nodiscard]] const BoundStrategy& strategy() const { return strategy_; }
  [[nodiscard]] const TaskGraph& graph() const { return graph_; }
  [[nodiscard]] const TaskDag& dag() const { return graph_.dag; }

  /// The operator's tasks in a microbatch.
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op, std::int32_t microbatch = 0) const {
    return tasks_[static_cast<std::size_t>(microbatch) * operators_ + op.index()];
  }
  [[nodiscard]] std::span<const Wiring> wirings() const { return {wirings_.data(), num_wirings_}; }
  [[nodiscard]] std::span<const StepBarrier> barriers() const { return barriers_; }
  [[nodiscard]] std::span<const Gate> gates() const { return gates_; }
  [[nodiscard]] std::int32_t microbatches() const { return microbatches_; }
  [[nodiscard]] std::size_t tasks_of_one_microbatch() const { return tasks_of_one_microbatch_; }
  [[nodiscard]] TaskBlock block() const { return block_; }
  /// The task of `microbatch` that corresponds to `of_first`, a task of the first microbatch on the same
  /// devices.
  [[nodiscard]] TaskId in_microbatch(TaskId of_first, std::int32_t microbatch) const;
  /// The layouts whose sum a wiring moves, in the order of Wiring::source_terms.
  [[nodiscard]] std::vector<LayoutId> terms_of(const Wiring& wiring) const;
  /// The redistributions that the wiring's tasks carry out, see CommunicationPlan::term_by_term and
  /// CommunicationTask::step.
  [[nodiscard]] std::vector<Redistribution> redistributions_of(const Wiring& wiring) const;
  /// The type of the elements that a wiring moves.
  [[nodiscard]] DataType type_of(const Wiring& wiring) const;

 private:
  friend class StrategyExpander;
  void begin(const BoundStrategy& strategy, std::int32_t microbatches);
  bool retime_passes();
  bool retime_transfers();
  void retime_updates();

  const PlanContents* contents_;
  std::size_t operators_;  // of the model
  BoundStrategy strategy_;
  TaskGraph graph_;
  std::vector<OperatorTasks> tasks_;  // per microbatch and operator
  std::vector<StepBarrier> barriers_;
  std::vector<Gate> gates_;
  std::vector<Wiring> wirings_;  // the first num_wirings_ count; the memory of the others is used again
  std::size_t num_wirings_ = 0, tasks_of_one_microbatch_ = 0;
  std::int32_t microbatches_ = 0;
  TaskBlock block_;
  HostTimes host_;  // that it was expanded with
};

}  // namespace pipesim
