#pragma once

#include <functional>

#include "search/search.h"

namespace pipesim {

/// Who looks on while a search runs, and may ask it to end.
class SearchObserver {
 public:
  virtual ~SearchObserver() = default;
  /// What the search has at most from now on.
  virtual void expect(const SearchBudget& budget) = 0;
  /// For the search; valid as long as the observer.
  [[nodiscard]] virtual ProgressCallback callback() = 0;
  /// Once, when the search has ended.
  virtual void finish(const SearchOutcome& outcome) = 0;
  /// The search was asked to end, and noticed it.
  [[nodiscard]] virtual bool interrupted() const = 0;
  /// The same between searches, where nothing looks at progress.
  virtual bool stop_requested() = 0;
  /// For deadlines, which threads look at.
  [[nodiscard]] virtual std::function<bool()> interruption() const = 0;
};

}  // namespace pipesim
