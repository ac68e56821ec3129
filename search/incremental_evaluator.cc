#include "search/incremental_evaluator.h"

#include <algorithm>
#include <limits>

#include "sim/base/errors.h"

namespace pipesim {

bool evaluates_in_full(const PlanOptions& options, const Runtime& runtime) {
  return runtime.has_host() || runtime.tensor_overlap || runtime.interference > 0 ||
         runtime.dispatcher != Dispatcher::AsModel || runtime.updates_together ||
         runtime.overlap != ReductionOverlap::Always || options.microbatches > 1 || options.pipeline ||
         options.state_sharding.any() || options.recompute.kind != Recompute::Kind::None ||
         options.gathered_inputs != GatheredInputs::Keep;
}

IncrementalEvaluator::IncrementalEvaluator(Evaluator& full)
    : full_(full),
      in_full_(evaluates_in_full(full.contents().options(), full.contents().costs().runtime())),
      graph_(full.contents()) {}

const BoundStrategy& IncrementalEvaluator::strategy() const {
  return in_full_ ? strategy_ : graph_.strategy();
}

Evaluation IncrementalEvaluator::start(const BoundStrategy& strategy) {
  refresh(strategy);
  return in_full_ ? evaluate(strategy) : Evaluation{schedule_.makespan(), overflow()};
}

Evaluation IncrementalEvaluator::evaluate(const BoundStrategy& strategy) {
  const tbb::spin_mutex::scoped_lock lock(full_.mutex());
  return full_.evaluate(strategy);
}

void IncrementalEvaluator::build(const BoundStrategy& strategy) {
  const BoundStrategy copy = strategy;  // it may be the graph's own
  graph_.build(copy);
  graph_.carry_out();
  schedule_.clear(graph_.loads().size());
  resimulate(graph_.dag(), schedule_, graph_.loads(), std::numeric_limits<Nanoseconds>::max() / 2,
             resimulation_);
  apply(resimulation_, graph_.dag(), schedule_);
  graph_.keep();
}

std::optional<Evaluation> IncrementalEvaluator::propose(std::span<const BoundChange> changes,
                                                        Nanoseconds limit) {
  if (in_full_) return propose_in_full(changes, limit);
  if (!graph_.change(changes, limit)) {
    graph_.undo();
    ++counts_.by_load;
    return std::nullopt;
  }
  graph_.carry_out();
  const auto time = resimulate(graph_.dag(), schedule_, graph_.loads(), limit, resimulation_);
  counts_.tasks_taken += static_cast<std::int64_t>(resimulation_.tasks_taken());
  if (!time) {
    graph_.undo();
    ++counts_.by_bound;
    return std::nullopt;
  }
  ++counts_.finished;
  return Evaluation{*time, overflow()};
}

// Bytes over the devices' capacities. Only where the sum of all that is ever allocated exceeds one, memory is
// followed over time.
Bytes IncrementalEvaluator::overflow() {
  const Topology& topology = full_.topology();
  bool fits = true;
  for (std::size_t d = 0; d < topology.num_devices(); ++d)
    fits &=
        graph_.allocated()[d] <= topology.usable_memory(DeviceId(d), graph_.communicators().of(DeviceId(d)));
  if (fits) return Bytes(0);
  ++counts_.memory_looked;
  return evaluate(graph_.strategy()).overflow;
}

void IncrementalEvaluator::accept() {
  if (in_full_) return;
  apply(resimulation_, graph_.dag(), schedule_);
  graph_.keep();
  constexpr std::size_t kMostIdsPerTask = 2;  // those of removed tasks are not used again
  if (graph_.dag().num_ids() > kMostIdsPerTask * graph_.dag().num_tasks()) build(graph_.strategy());
}

void IncrementalEvaluator::refresh(const BoundStrategy& strategy) {
  strategy_ = strategy;
  generation_ = full_.contents().generation();
  if (!in_full_) build(strategy);
}

void IncrementalEvaluator::reject() {
  if (in_full_) {
    strategy_ = before_;
  } else {
    graph_.undo();
  }
}

std::optional<Evaluation> IncrementalEvaluator::propose_in_full(std::span<const BoundChange> changes,
                                                                Nanoseconds limit) {
  before_ = strategy_;
  for (const BoundChange& c : changes) strategy_[c.op.index()] = c.config;
  const Evaluation evaluation = evaluate(strategy_);
  if (evaluation.time <= limit) {
    ++counts_.finished;
    return evaluation;
  }
  strategy_ = before_;
  ++counts_.by_bound;
  return std::nullopt;
}

std::size_t IncrementalEvaluator::bytes() const {
  return graph_.dag().bytes() + schedule_.bytes() + resimulation_.bytes();
}

}  // namespace pipesim
