#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/incremental/editable_dag.h"
#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/moving/traffic_bound.h"

namespace pipesim {

/// An operator's new config.
struct BoundChange {
  OperatorId op;
  const BoundOperator* config = nullptr;
  bool operator==(const BoundChange&) const = default;
};

/// The task graph of one microbatch of a strategy, edited in place when operators get other configs. An edit
/// replaces the tasks of these operators, the transfers to and from them, and the synchronisation of their
/// weights. The result has the same tasks, edges and keys as ExpandedStrategy gives the edited strategy.
///
/// build() and change() begin an edit by planning it; loads(), allocated() and communicators() then belong to
/// the new strategy. carry_out() edits the graph; keep() or undo() ends the edit. undo() may follow change()
/// at once.
class EditableTaskGraph {
 public:
  /// `contents` must outlive it, and have one microbatch.
  explicit EditableTaskGraph(const PlanContents& contents);

  /// Builds all tasks anew. Required after the contents forgot something.
  void build(const BoundStrategy& strategy);
  /// Gives distinct operators new configs; a config may equal the old one. Returns false as soon as some lane
  /// is certain to be held for longer than `limit`. Then only undo() may follow.
  [[nodiscard]] bool change(std::span<const BoundChange> changes, Nanoseconds limit = kNoLimit);
  void carry_out();
  void keep();
  void undo();

  [[nodiscard]] const EditableDag& dag() const { return dag_; }
  [[nodiscard]] const BoundStrategy& strategy() const { return strategy_; }
  /// By lane: how long the tasks hold it, summed.
  [[nodiscard]] std::span<const Nanoseconds> loads() const { return loads_; }
  /// By device: an upper bound of the bytes that it ever holds, see allocated_memory().
  [[nodiscard]] std::span<const Bytes> allocated() const { return allocated_; }
  /// The communicators that devices are in.
  [[nodiscard]] const CommunicatorCount& communicators() const { return communicators_; }

 private:
  static constexpr Nanoseconds kNoLimit = INT64_MAX;

  /// One transfer of a tensor: from its producer to consumers, of its gradient back, or of a weight's
  /// gradient to its home.
  struct Way {
    const CommunicationPlan* plan = nullptr;  ///< there is none without a plan
    TaskId first_task;                        ///< of the plan's tasks; invalid if it has none
    std::int32_t ordinal = 0;                 ///< see Wiring
    bool kept = false;                        ///< its tasks are in the graph before and after the edit
  };
  /// The operators that make and own a tensor, and its transfers.
  struct TensorEnds {
    UseRef producer;
    OperatorId owner;  ///< of a trained weight
    bool backward = false;
    std::size_t first_way = 0;    ///< in ways_: the transfer of its gradient
    std::size_t num_forward = 0;  ///< the number of forward transfers, which follow it
  };
  /// A tensor whose transfers are planned anew.
  struct Affected {
    TensorId tensor;
    std::size_t first_before = 0, num_forward_before = 0;  ///< in ways_before_
    bool planned = false;
  };
  /// The update tasks of the weights that an operator owns.
  struct Updates {
    const OwnedUpdates* work = nullptr;
    TaskId first;
  };
  /// The tasks that read the data of a transfer.
  struct Reader {
    TaskId first;
    std::span<const std::int32_t> reader_of_device;
    bool changed = false;
  };

  void begin();
  void set_config(BoundChange change);
  void affect(TensorId tensor);
  void list_affected();
  void take_away();
  bool plan(Nanoseconds limit);
  bool plan_known(Nanoseconds limit);
  bool add_least(TensorId tensor);
  bool add_least(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms, LayoutId target);
  void plan_updates(OperatorId owner);
  void plan_ways(const Affected& affected);
  void plan_forward(const Affected& affected);
  [[nodiscard]] const CommunicationPlan& forward_plan(const Affected& affected, LayoutId target);
  void plan_backward(TensorId tensor);
  void remove_tasks();
  void remove_operator(std::size_t number);
  void add_tasks();
  void add_forward(OperatorId op);
  void add_backward(OperatorId op);
  void add_way(TensorId tensor, TaskKind kind, Way& way);

  [[nodiscard]] bool is_changed(OperatorId op) const { return changed_in_[op.index()] == edit_; }
  [[nodiscard]] Way& gradient_way(TensorId tensor) { return ways_[tensors_[tensor.index()].first_way]; }
  [[nodiscard]] std::span<Way> forward_ways(TensorId tensor);
  [[nodiscard]] std::span<Way> ways_before(const Affected& affected);
  [[nodiscard]] TaskKind gradient_kind(TensorId tensor) const;
  [[nodiscard]] std::int32_t term_of(TensorId tensor, const CommunicationPlan& plan, UseRef source);
  void add_reader(TaskId first, OperatorId op);
  void list_readers(TensorId tensor, TaskKind kind, const Way& way);
  [[nodiscard]] std::span<const UseRef> sources(TensorId tensor, TaskKind kind) const;
  void connect();
  void connect_way(TensorId tensor, TaskKind kind, const Way& way);
  void disconnect_way(TensorId tensor, TaskKind kind, const Way& way);
  void count(TaskKind kind, const CommunicationPlan& plan, std::int64_t sign);
  void count(const BoundOperator& bound, std::int64_t sign);
  void count(const OwnedUpdates& work, std::int64_t sign);
  void count(LaneId lane, Nanoseconds hold);
  void count(const Communicators& needed, std::int32_t sign);

  const PlanContents& contents_;
  const OperatorGraph& graph_;
  BoundStrategy strategy_;
  EditableDag dag_;
  std::vector<OperatorTasks> tasks_;  // per operator
  std::vector<TensorEnds> tensors_;
  std::vector<Way> ways_;
  std::vector<Updates> updates_;    // per operator
  std::vector<Nanoseconds> loads_;  // per lane
  std::vector<Bytes> allocated_;    // per device
  CommunicatorCount communicators_;

  // The edit.
  std::uint32_t edit_ = 0;
  std::vector<std::uint32_t> changed_in_, updated_in_;  // per operator: the last edit of it, of its updates
  std::vector<std::uint32_t> affected_in_;              // per tensor: the last edit that affected its ways
  std::vector<OperatorId> changed_, owners_;            // ascending; of weights that the changed ones use
  std::vector<Affected> affected_;
  std::vector<const BoundOperator*> configs_before_;  // of changed_
  std::vector<OperatorTasks> tasks_before_;           // of changed_
  std::vector<Way> ways_before_;                      // of affected_
  std::vector<Updates> updates_before_;               // of owners_
  std::vector<Nanoseconds> loads_before_;
  std::vector<Bytes> allocated_before_;
  struct Needed {
    const Communicators* communicators = nullptr;
    std::int32_t sign = 1;
  };
  std::vector<Needed> counted_;  // communicators that came (1) and went (−1)
  Nanoseconds most_ = 0;         // of the loads that were added to
  LeastTraffic least_;           // what is not planned yet takes
  std::vector<Reader> readers_;  // scratch
  LayoutIds terms_;              // scratch
};

}  // namespace pipesim
