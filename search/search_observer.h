#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "search/search.h"
#include "sim/base/deadline.h"

namespace pipesim {

/// Watches a search while it runs, and may ask it to end.
class SearchObserver {
 public:
  virtual ~SearchObserver() = default;
  /// Sets the budget of the search from now on, and the time that no plan can beat, if it is known.
  virtual void expect(const SearchBudget& budget, std::optional<Nanoseconds> lower_bound) = 0;
  /// Returns the callback for the search, which is valid as long as the observer.
  [[nodiscard]] virtual ProgressCallback callback() = 0;
  /// Is called once, when the search has ended.
  virtual void finish(const SearchOutcome& outcome) = 0;
  /// Whether the search was asked to end, and noticed it.
  [[nodiscard]] virtual bool interrupted() const = 0;
  /// Asks between searches, when no search reports progress, whether a stop was requested.
  virtual bool stop_requested() = 0;
  /// Returns a function that says whether a stop was requested. Deadlines on any thread may call it.
  [[nodiscard]] virtual std::function<bool()> interruption() const = 0;
};

/// The deadline of this thread's work, which a request to the observer ends earlier.
inline Deadline deadline_with_stop(const SearchObserver& observer) {
  if (const Deadline* kept = deadline_kept()) return kept->with_stop(observer.interruption());
  return Deadline(std::numeric_limits<double>::infinity(), {}, observer.interruption());
}

}  // namespace pipesim
