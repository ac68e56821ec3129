#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "search/candidates.h"
#include "search/evaluator.h"

namespace pipesim {

/// A strategy in which one operator has another config, and its cost.
struct SingleChange {
  OperatorId op;
  std::size_t index = 0;  ///< CandidateSet::config(op, index) is the new config
  Evaluation evaluation;
  bool operator==(const SingleChange&) const = default;
};

struct SingleChanges {
  std::vector<SingleChange> best;  ///< that help: at most one per operator, the fastest first
  std::int64_t tried = 0;
  std::int64_t all = 0;  ///< configs of all operators other than those that they have
};

/// Scores the start strategy with one operator's config replaced by one of its candidates. If the result is
/// slower than the start, any slower time may be returned.
using TryChange = std::function<Evaluation(OperatorId, std::size_t index)>;

/// The operators for which another config shortens the start's `time` most, at most `most` of them, and the
/// best config that was tried for each; of equally good ones the operator that comes first in the graph, and
/// the config that was tried first. A change that does not fit into memory never counts.
///
/// Every operator of `order` (distinct ones) gets one try before any gets its second. The most promising
/// configs come first: those of other operators of its kind, most frequent first; then every split over its
/// own devices and over its neighbours'; then all others, spread evenly over the candidates. `stop` is called
/// before each try with the number of tries so far; without it all candidates are tried.
SingleChanges best_single_changes(const CandidateSet& candidates, const Strategy& start, Nanoseconds time,
                                  std::span<const OperatorId> order, const TryChange& evaluate,
                                  const std::function<bool(std::int64_t tried)>& stop, std::size_t most);

}  // namespace pipesim
