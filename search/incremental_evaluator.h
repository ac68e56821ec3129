#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/evaluator.h"
#include "sim/incremental/resimulate.h"
#include "taskgraph/expansion/editable_task_graph.h"

namespace pipesim {

/// Plans of several microbatches, of stages, and those that run operators again.
bool evaluates_in_full(const PlanOptions& options);

/// Scores one change of a strategy after another: what Evaluator says of the changed strategy, for the price
/// of what the change changes, where evaluates_in_full() does not say otherwise. Not thread-safe.
class IncrementalEvaluator {
 public:
  /// What `full` remembers may be shared by many, on several threads; its mutex is held for a full evaluation
  /// only. When it forgets, each must refresh() before it goes on.
  explicit IncrementalEvaluator(Evaluator& full);

  /// Makes a strategy the current one.
  Evaluation start(const BoundStrategy& strategy);
  /// The current strategy with some operators changed; nothing when its time is certain to exceed `limit`.
  /// accept() or reject() must follow where there is an evaluation.
  std::optional<Evaluation> propose(std::span<const BoundChange> changes, Nanoseconds limit);
  void accept();
  void reject();

  /// What was remembered has been forgotten since the current strategy's graph was built.
  [[nodiscard]] bool is_outdated() const { return generation_ != full_.contents().generation(); }
  /// Builds it again; the strategy is the current one, bound again.
  void refresh(const BoundStrategy& strategy);

  [[nodiscard]] const BoundStrategy& strategy() const;
  /// Binds configs, and scores strategies in full.
  [[nodiscard]] Evaluator& full() { return full_; }

  /// What became of the proposals so far.
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
