#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "search/search_observer.h"
#include "tools/cli/searching/interrupt.h"
#include "tools/cli/searching/progress_line.h"
#include "tools/cli/searching/search_log.h"

namespace pipesim {

/// Exit status of a search that was interrupted before it had a plan. A shell reports the same for a program
/// that SIGINT ended.
inline constexpr int kInterruptedStatus = 130;

/// Everything that accompanies a search that may take hours: it shows the progress, writes the log, and stops
/// the search on Ctrl-C. Signals are noted until the watch is destroyed, not only during the search, because
/// the plan must still be written.
class SearchWatch : public SearchObserver {
 public:
  explicit SearchWatch(const Streams& streams);

  /// For the search; valid as long as the watch.
  [[nodiscard]] ProgressCallback callback() override;
  /// Clears the line, ends the log, and says on `err` if the search was interrupted or the log is incomplete.
  void finish(const SearchOutcome& outcome) override;
  [[nodiscard]] bool interrupted() const override { return interrupted_; }
  /// Asked between searches; the answer then counts as that of a search.
  bool stop_requested() override { return interrupted_ = interrupt_.requested(); }
  /// For deadlines, which threads look at.
  [[nodiscard]] std::function<bool()> interruption() const override {
    return [this] { return interrupt_.requested(); };
  }
  /// Logs from now on. InputError when the file can't be written.
  void log_to(const std::string& file) { log_.emplace(file); }
  /// What the line shows from now on.
  void expect(const SearchBudget& budget, std::optional<Nanoseconds> lower_bound) override {
    line_.expect(budget, lower_bound);
  }

 private:
  std::ostream& err_;
  std::optional<SearchLog> log_;
  ProgressLine line_;
  Interrupt interrupt_;
  bool interrupted_ = false;  // while the search ran: later, nothing is cut short
};

}  // namespace pipesim
