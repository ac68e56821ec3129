#pragma once

#include <functional>

#include "search/search.h"

namespace pipesim {

/// Watches a search while it runs, and may ask it to end.
class SearchObserver {
 public:
  virtual ~SearchObserver() = default;
  /// The budget of the search from now on.
  virtual void expect(const SearchBudget& budget) = 0;
  /// For the search; valid as long as the observer.
  [[nodiscard]] virtual ProgressCallback callback() = 0;
  /// Once, when the search has ended.
  virtual void finish(const SearchOutcome& outcome) = 0;
  /// Whether the search was asked to end, and noticed it.
  [[nodiscard]] virtual bool interrupted() const = 0;
  /// Asks for a request to stop between searches, when no search reports progress.
  virtual bool stop_requested() = 0;
  /// For deadlines, which threads look at.
  [[nodiscard]] virtual std::function<bool()> interruption() const = 0;
};

}  // namespace pipesim
