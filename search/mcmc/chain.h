#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/annealing/cost.h"
#include "search/incremental_evaluator.h"
#include "search/mcmc/bound_configs.h"
#include "search/mcmc/known_costs.h"
#include "search/mcmc/moves.h"
#include "search/scored.h"

namespace pipesim {

/// The state from which a chain continues. Equal states continue equally, with any evaluator.
struct ChainState {
  ScoredConfigs current;
  ScoredConfigs best;  ///< best feasible state since the start; without configs while there was none
  Rng rng{0};
  std::int64_t proposals = 0, accepted = 0;
  double lowest = 0;  ///< least cost since it started
  MoveCounts counts;  ///< since it started; an accepted proposal counts if it changed the cost
  bool operator==(const ChainState&) const = default;
};

/// How a slice of a chain is run.
struct ChainSlice {
  std::int64_t draws = 0;      ///< including draws that change nothing
  std::int64_t proposals = 0;  ///< at most; not counting draws that change nothing
  double temperature = 0;      ///< nanoseconds
  MoveRates rates{};
  double cooled = 0;  ///< nanoseconds: the temperature after the last draw, falling evenly in its logarithm;
                      ///< 0: it stays
};

/// One Markov chain by the rule of Metropolis and Hastings (FlexFlow, MLSys 2019, section 6.2, which needs no
/// Hastings correction since its proposals are symmetric). The evaluation of a proposal ends as soon as its
/// time is certain to exceed highest_accepted(). A state that is known to cost more (KnownCosts) is not
/// evaluated again.
class Chain {
 public:
  /// `configs` may be shared with other chains, of any thread.
  Chain(const Moves& moves, BoundConfigs& configs, Cost cost, ChainState state);

  /// Called every few proposals, with the number made since the last call. False stops the chain before its
  /// slice is over.
  using Report = std::function<bool(std::int64_t proposals, std::int64_t accepted)>;
  bool run(const ChainSlice& slice, const Report& report);
  /// Restarts the chain from other configs with other moves. Its random numbers continue.
  void restart(const Moves& moves, std::vector<std::size_t> configs);

  [[nodiscard]] const ChainState& state() const { return state_; }
  [[nodiscard]] const IncrementalEvaluator::Counts& counts() const { return evaluator_.counts(); }
  [[nodiscard]] std::int64_t known() const { return rejected_as_known_; }  ///< proposals not evaluated
  [[nodiscard]] std::size_t bytes() const { return evaluator_.bytes() + known_.bytes(); }

 private:
  void begin();
  bool step(const MoveRates& rates, double temperature);  // false: the draw changed nothing
  [[nodiscard]] std::optional<Evaluation> evaluate(double limit);
  void accept(const Evaluation& evaluation);
  void note_best();

  const Moves* moves_;
  BoundConfigs& configs_;
  IncrementalEvaluator evaluator_;
  Cost cost_;
  ChainState state_;
  double current_ = 0;
  KnownCosts known_;
  KnownCosts::Digest digest_ = 0;  // of the current configs
  std::int64_t rejected_as_known_ = 0;
  Proposal proposal_;
  std::vector<BoundChange> changes_;
};

}  // namespace pipesim
