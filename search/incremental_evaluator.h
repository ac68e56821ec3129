#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/evaluator.h"
#include "sim/incremental/resimulate.h"
#include "taskgraph/expansion/editable_task_graph.h"

namespace pipesim {

/// Whether plans with these options are always evaluated in full: several microbatches, stages,
/// recompute, divided state, or a runtime with a host or an order of its own.
bool evaluates_in_full(const PlanOptions& options, const Runtime& runtime);

/// Scores one change of a strategy after another. The result is the Evaluator's for the changed strategy, but
/// the effort grows only with the change, except where evaluates_in_full(). Not thread-safe.
class IncrementalEvaluator {
 public:
  /// Several of these, on several threads, may share `full`; its mutex is held for full evaluations only.
  /// When `full` forgets its results, each must refresh() before it goes on.
  explicit IncrementalEvaluator(Evaluator& full);

  /// Makes a strategy the current one.
  Evaluation start(const BoundStrategy& strategy);
  /// Evaluates the current strategy with some operators changed; nothing when its time is certain to exceed
  /// `limit`. After an evaluation accept() or reject() must follow.
  std::optional<Evaluation> propose(std::span<const BoundChange> changes, Nanoseconds limit);
  void accept();
  void reject();

  /// Whether `full` has forgotten results since the current strategy's graph was built.
  [[nodiscard]] bool is_outdated() const { return generation_ != full_.contents().generation(); }
  /// Builds the graph again. The strategy is the current one, bound again.
  void refresh(const BoundStrategy& strategy);

  [[nodiscard]] const BoundStrategy& strategy() const;
  /// Binds configs, and scores strategies in full.
  [[nodiscard]] Evaluator& full() { return full_; }

  /// Numbers of proposals by outcome.
  struct Counts {
    std::int64_t by_load = 0;        ///< rejected because a lane's load alone exceeds the limit
    std::int64_t by_bound = 0;       ///< rejected while they were simulated
    std::int64_t finished = 0;       ///< evaluated
    std::int64_t tasks_taken = 0;    ///< in all simulations
    std::int64_t memory_looked = 0;  ///< finished, and memory over time was computed
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::optional<Evaluation> propose_in_full(std::span<const BoundChange> changes, Nanoseconds limit);
  [[nodiscard]] Bytes overflow();
  Evaluation evaluate(const BoundStrategy& strategy);
  void build(const BoundStrategy& strategy);

  Evaluator& full_;
  std::uint64_t generation_ = 0;  // of what `full` remembers, when the graph was built
  bool in_full_;
  EditableTaskGraph graph_;
  Schedule schedule_;
  Resimulation resimulation_;
  Counts counts_;
  BoundStrategy strategy_, before_;  // of plans that are evaluated in full
};

}  // namespace pipesim
