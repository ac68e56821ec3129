#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/incremental/editable_dag.h"
#include "taskgraph/task_graph_builder.h"

namespace pipesim {

/// An operator's new config.
struct BoundChange {
  OperatorId op;
  const BoundOperator* config = nullptr;
  bool operator==(const BoundChange&) const = default;
};

/// The task graph of one microbatch of a strategy, edited in place when operators get other configs: an edit
/// replaces their tasks, the transfers to and from them, and the synchronisation of their weights. The same
/// tasks and edges, with the same keys, as TaskGraphBuilder makes for the edited strategy.
///
/// build() and change() begin an edit by planning it, from which loads() and allocated() follow; carry_out()
/// edits the graph; keep() or undo() end it. undo() may follow change() at once.
class EditableTaskGraph {
 public:
  /// Takes from the builder what depends on content alone; it must outlive the graph. One microbatch.
  explicit EditableTaskGraph(TaskGraphBuilder& contents);

  /// All tasks anew. After TaskGraphBuilder::limit_memory() forgot something, this is the only way on.
  void build(const BoundStrategy& strategy);
  /// Distinct operators; a config may be the one that the operator has.
  void change(std::span<const BoundChange> changes);
  void carry_out();
  void keep();
  void undo();

  [[nodiscard]] const EditableDag& dag() const { return dag_; }
  [[nodiscard]] const BoundStrategy& strategy() const { return strategy_; }
  /// By lane: what its tasks hold it, added up.
  [[nodiscard]] std::span<const Nanoseconds> loads() const { return loads_; }
  /// By device: an upper bound of what it ever holds, see allocated_memory().
  [[nodiscard]] std::span<const Bytes> allocated() const { return allocated_; }

 private:
  /// The ways of one tensor. Wirings beyond num_forward are kept for their memory.
  struct Ways {
    std::vector<Wiring> forward;
    std::size_t num_forward = 0;
    Wiring backward;  ///< without a plan: there is none
    Wiring sync;      ///< of a weight
  };
  /// The update tasks of the weights that an operator owns.
  struct Updates {
    const OwnedUpdates* work = nullptr;
    TaskId first;
  };
  /// The tasks that read what a wiring brings.
  struct Reader {
    TaskId first;
    std::span<const std::int32_t> reader_of_device;
    bool changed = false;
  };

  void begin();
  void set_config(BoundChange change);
  void affect(TensorId tensor);
  void list_affected();
  void plan();
  void plan_ways(std::size_t number);
  void plan_updates(OperatorId owner);
  void remove_tasks();
  void remove_operator(std::size_t number);
  void remove_wiring(const Wiring& wiring);
  void add_tasks();
  void add_forward(OperatorId op);
  void add_backward(OperatorId op);
  void add_wiring(Wiring& wiring);

  [[nodiscard]] bool is_changed(OperatorId op) const { return changed_in_[op.index()] == edit_; }
  void list_readers(const Wiring& wiring);
  void connect();
  void connect_wiring(const Wiring& wiring);
  void disconnect_wiring(const Wiring& wiring);

  void count(const Wiring& wiring, std::int64_t sign);
  void count(const BoundOperator& bound, std::int64_t sign);
  void count(const OwnedUpdates& work, std::int64_t sign);
  void count(std::span<const LaneUse> loads, std::int64_t sign);

  TaskGraphBuilder& contents_;
  const OperatorGraph& graph_;
  BoundStrategy strategy_;
  EditableDag dag_;
  std::vector<OperatorTasks> tasks_;  // per operator
  std::vector<Ways> ways_;            // per tensor
  std::vector<Updates> updates_;      // per operator
  std::vector<OperatorId> owner_;     // per tensor: of a trained weight
  std::vector<Nanoseconds> loads_;    // per lane
  std::vector<Bytes> allocated_;      // per device

  // The edit.
  std::uint32_t edit_ = 0;
  std::vector<std::uint32_t> changed_in_;             // per operator: the last edit that changed it
  std::vector<std::uint32_t> affected_in_;            // per tensor: the last edit that affected its ways
  std::vector<std::uint32_t> updated_in_;             // per operator: … its updates
  std::vector<OperatorId> changed_;                   // ascending
  std::vector<OperatorId> owners_;                    // of weights that the changed operators use
  std::vector<TensorId> tensors_;                     // whose ways are planned anew
  std::vector<const BoundOperator*> configs_before_;  // of changed_
  std::vector<OperatorTasks> tasks_before_;           // of changed_
  std::vector<Ways> ways_before_;                     // of tensors_; more are kept for their memory
  std::vector<Updates> updates_before_;               // of owners_
  std::vector<Nanoseconds> loads_before_;
  std::vector<Bytes> allocated_before_;
  std::vector<Reader> readers_;  // scratch
};

}  // namespace pipesim
