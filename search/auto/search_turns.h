#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "search/auto/contest.h"
#include "search/auto/planner_turns.h"
#include "search/auto/shared_budget.h"

namespace pipesim {

/// Searches from the plans that were found, over splits (search/mcmc) and over everything (search/joint), in
/// turns that depend on what they find.
class SearchTurns {
 public:
  /// Both must outlive it. Planners that had too little time are asked again where searches over splits are
  /// slow.
  SearchTurns(Contest& contest, PlannerTurns& planners);

  /// The search over splits that comes before planners, if there is one, see PlannerTurns.
  void begin_splits();
  void search(const SearchBudget& budget);

 private:
  std::int32_t race_splits(SharedBudget& shared);
  void search_splits(std::int32_t microbatches, const SearchBudget& more, std::int32_t part);
  void search_jointly(const SearchBudget& more, std::int32_t part);
  [[nodiscard]] std::pair<Bytes, Nanoseconds> best_of_splits(std::int32_t microbatches) const;
  [[nodiscard]] double share_of_splits(std::int32_t best) const;
  [[nodiscard]] bool splits_are_too_slow() const;
  [[nodiscard]] double seconds_of(const SearchBudget& more) const;
  [[nodiscard]] double seconds_after(double before, const SearchBudget& more) const;

  Contest& contest_;
  PlannerTurns& planners_;
  std::map<std::int32_t, std::int64_t> given_;  // proposals, in all parts, by microbatches
  std::int64_t given_jointly_ = 0;              // proposals
  bool splits_proposed_ = false;                // a search over splits tried a change
};

}  // namespace pipesim
