#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/candidates.h"
#include "search/scored.h"

namespace pipesim {

/// A baseline's name, its strategy, and why it can't be used, if it can't. Searches may start from one that
/// does not fit.
struct Baseline {
  std::string name;
  std::optional<Scored<Strategy>> scored;  ///< nothing when there was no time to score it
  std::string infeasible;                  ///< empty when it fits
  Bytes shortage = {};                     ///< of the device that lacks most memory
  std::string idle = {};                   ///< see idle_devices(); of single-device "", which is no surprise
};

/// A strategy to start from, and who made it.
struct SearchStart {
  std::string name;
  Strategy strategy;
  std::optional<Evaluation> evaluation = std::nullopt;  ///< if it is known: it is not scored again
};

/// The limits of a search. It stops at the first that is reached.
struct SearchBudget {
  double seconds = 0;  ///< 0: no limit
  std::int64_t proposals =
      0;  ///< 0: no limit; with this one alone, results are the same bytes for the same seed

  [[nodiscard]] bool out_of_seconds(double passed) const { return seconds > 0 && passed >= seconds; }
  [[nodiscard]] bool spent(std::int64_t made, double passed) const {
    return (proposals > 0 && made >= proposals) || out_of_seconds(passed);
  }
};

/// The progress of a search, for a progress line.
struct SearchProgress {
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;
  Nanoseconds best = 0;  ///< 0: nothing feasible yet
  int chain = 0;         ///< the chain that reports; 0 where there is but one
};

/// Called now and then, never by two threads at once; return false to stop the search.
using ProgressCallback = std::function<bool(const SearchProgress&)>;

/// A new best of a search.
struct SearchImprovement {
  double seconds = 0;  ///< wall time since the search began: the one figure that no seed decides
  std::int64_t proposals = 0;
  Nanoseconds best = 0;
  int chain = 0;  ///< as in SearchProgress
  bool operator==(const SearchImprovement&) const = default;
};

/// What a search has done.
struct SearchRecord {
  std::int64_t proposals = 0, accepted = 0;
  double seconds = 0;                      ///< wall time
  std::vector<SearchImprovement> history;  ///< by proposals, each better than the one before
};

struct SearchOutcome : SearchRecord {
  std::optional<Scored<Strategy>> best;  ///< nothing when no feasible strategy was met
  std::string found_by;                  ///< "mcmc", "data-parallel", "exhaustive", …
  bool proven = false;                   ///< the best of the whole candidate set
};

}  // namespace pipesim
