#pragma once

#include "sim/base/deadline.h"
#include "tools/searching/why_plan.h"

namespace pipesim {

/// How a command divides the time of --seconds, so that it is done when that is over, and at the latest a
/// tenth of it and half a second later: scoring baselines, a lower bound, searching, and a report of what was
/// found. Without a limit of time no part has one; then only whoever asks for an end stops them. Parts are
/// deadlines from when they are asked for.
class SearchTime {
 public:
  /// `seconds`: from now, 0: no limit.
  explicit SearchTime(double seconds, Deadline::StopRequested stop_requested = {},
                      Deadline::WallClock clock = {});

  [[nodiscard]] bool limited() const { return all_.limited(); }
  /// Until the report: what baselines and the lower bound leave goes to the search.
  [[nodiscard]] Deadline baselines() const;    ///< half of all
  [[nodiscard]] Deadline lower_bound() const;  ///< at most a tenth
  [[nodiscard]] Deadline search() const;
  /// A report of plans takes about so long: that much is kept for it, from a tenth to three tenths of all.
  void keep_for_report(double seconds);
  /// No request ends it, and it may take a twentieth of the time and 0.3 s more than there is.
  [[nodiscard]] Deadline report() const;
  /// What is left for trying changes after the report, at least a fifth of a second.
  [[nodiscard]] TryBudget shortened(TryBudget budget) const;

 private:
  [[nodiscard]] Deadline before_report(double share) const;

  double seconds_;
  Deadline all_, late_;
  double kept_;
};

}  // namespace pipesim
