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

namespace pipesim {

/// A strategy of a config space, by the numbers of its configs, and what it costs.
struct ScoredState {
  std::vector<std::size_t> configs;
  Evaluation evaluation;
  bool operator==(const ScoredState&) const = default;
};

/// All that a chain goes on from: equal states go on equally, whatever evaluator runs them.
struct ChainState {
  ScoredState current;
  ScoredState best;  ///< of all feasible since it started; without configs while there was none
  Rng rng{0};
  std::int64_t proposals = 0, accepted = 0;
  double lowest = 0;  ///< least cost since it started
  MoveCounts counts;  ///< since it started; an accepted proposal counts if it changed the cost
  bool operator==(const ChainState&) const = default;
};

/// How a slice of a chain is run.
struct ChainSlice {
  std::int64_t draws = 0;      ///< a draw that changes nothing is one, too: the state stays
  std::int64_t proposals = 0;  ///< at most; draws that change nothing are none
  double temperature = 0;      ///< nanoseconds
  MoveRates rates{};
  double cooled = 0;  ///< nanoseconds: the temperature after the last draw, falling evenly in its logarithm;
                      ///< 0: it stays
};

/// One Markov chain, Metropolis–Hastings against its current state (FlexFlow, MLSys 2019, section 6.2, which
/// has no Hastings correction since its proposals are symmetric). A proposal is given up as soon as its time
/// is certain to exceed what would be accepted (highest_accepted()). A state that is known to cost more than
/// that (KnownCosts) is not evaluated again.
class Chain {
 public:
  /// `configs` may be shared with other chains, of any thread.
  Chain(const Moves& moves, BoundConfigs& configs, Cost cost, ChainState state);

  /// False stops it before its slice is over. Called every few proposals with those made since the last call.
  using Report = std::function<bool(std::int64_t proposals, std::int64_t accepted)>;
  bool run(const ChainSlice& slice, const Report& report);
  /// Starts from other configs with other moves; its random numbers go on.
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
