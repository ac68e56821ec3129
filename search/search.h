#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/candidates.h"
#include "search/evaluator.h"

namespace pipesim {

/// A strategy and what it costs.
struct ScoredStrategy {
  Strategy strategy;
  Evaluation evaluation;
};

/// A baseline's name, its strategy, and why it can't be used as it is. Searches may start from one that does
/// not fit.
struct Baseline {
  std::string name;
  std::optional<ScoredStrategy> scored;  ///< nothing when the strategy can't be formed at all
  std::string infeasible;                ///< empty when it fits
};

/// When a search stops. Whatever comes first.
struct SearchBudget {
  double seconds = 0;  ///< 0: no limit
  std::int64_t proposals =
      0;  ///< 0: no limit; with this one alone, results are the same bytes for the same seed
};

/// How a search is getting on, for a progress line.
struct SearchProgress {
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  Nanoseconds best = 0;  ///< 0: nothing feasible yet
};

/// Called every few thousand proposals or so; return false to stop the search.
using ProgressCallback = std::function<bool(const SearchProgress&)>;

struct SearchOutcome {
  std::optional<ScoredStrategy> best;  ///< nothing when no feasible strategy was met
  std::string found_by;                ///< "mcmc", "data-parallel", "exhaustive", …
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  bool proven = false;  ///< the best of the whole candidate set
};

}  // namespace pipesim
