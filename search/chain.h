#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "search/mcmc.h"

namespace pipesim {

/// What one chain may use up.
struct ChainBudget {
  std::int64_t proposals = 0;  ///< 0: no limit
  double seconds = 0;          ///< 0: no limit
  bool none = false;           ///< score the start, propose nothing
};

struct ChainOutcome {
  std::vector<std::size_t> best;  ///< config numbers; empty when nothing feasible was met
  Evaluation evaluation;
  std::int64_t proposals = 0, accepted = 0;
};

/// One Metropolis chain. `evaluator` may be any that was made for the same graph and costs: it has no say in
/// results.
class Chain {
 public:
  /// Called every few proposals with how many were made and accepted since the last call and the best time so
  /// far; false stops the chain.
  using Report = std::function<bool(std::int64_t proposals, std::int64_t accepted, Nanoseconds best)>;

  Chain(const ConfigSpace& space, const Moves& moves, Evaluator& evaluator, const McmcOptions& options);
  ChainOutcome run(const std::vector<std::size_t>& start, ChainBudget budget, Rng rng, const Report& report);

 private:
  [[nodiscard]] double cost(const Evaluation& e) const;
  void begin(const std::vector<std::size_t>& start);
  bool step(double temperature, Rng& rng);  // false: the draw changed nothing
  const BoundOperator* bound(ConfigChange change);
  void note_best(const Evaluation& e);

  const ConfigSpace& space_;
  const Moves& moves_;
  Evaluator& evaluator_;
  McmcOptions options_;
  double overflow_price_ = 0;  // nanoseconds a byte
  std::vector<std::size_t> state_;
  BoundStrategy strategy_;
  double current_ = 0;
  ChainOutcome outcome_;
  std::vector<ConfigChange> changes_;
  std::vector<const BoundOperator*> replaced_;
};

}  // namespace pipesim
