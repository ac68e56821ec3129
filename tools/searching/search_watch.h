#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "search/search_observer.h"
#include "tools/searching/interrupt.h"
#include "tools/searching/progress_line.h"
#include "tools/searching/search_log.h"

namespace pipesim {

/// Exit status of a search that was interrupted before it had a plan: what a shell says of a program that
/// SIGINT ended.
inline constexpr int kInterruptedStatus = 130;

/// All that goes on beside a search that may take hours: shows how it gets on, writes its log, and stops it
/// on Ctrl-C. Signals are noted until the end of the watch, not only of the search: the plan is still
/// written.
class SearchWatch : public SearchObserver {
 public:
  /// Without a log when `log_file` is "". InputError when it can't be written.
  SearchWatch(std::ostream& err, const SearchBudget& budget, std::optional<Nanoseconds> lower_bound,
              const std::string& log_file);

  /// For the search; valid as long as the watch.
  [[nodiscard]] ProgressCallback callback() override;
  /// Clears the line, ends the log, and says on `err` if the search was interrupted or the log is incomplete.
  void finish(const SearchOutcome& outcome) override;
  [[nodiscard]] bool interrupted() const override { return interrupted_; }
  /// Between searches: whoever asked is answered as if one had run.
  bool stop_requested() override { return interrupted_ = interrupt_.requested(); }
  /// For deadlines, which threads look at.
  [[nodiscard]] std::function<bool()> interruption() const override {
    return [this] { return interrupt_.requested(); };
  }
  /// From now on. InputError when it can't be written.
  void log_to(const std::string& file) { log_.emplace(file); }
  void expect(const SearchBudget& budget) override { line_.expect(budget, std::nullopt); }
  /// What the line shows from now on.
  void expect(const SearchBudget& budget, std::optional<Nanoseconds> lower_bound) {
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
