#pragma once

#include "sim/base/deadline.h"
#include "tools/searching/why_plan.h"

namespace pipesim {

/// Divides the time of --seconds among the parts of a command: scoring baselines, a lower bound, searching,
/// and a report. The command is done at the end of the time, at the latest a tenth of it and half a second
/// later. Without --seconds no part has a time limit; only a request to stop ends them. Each part is a
/// deadline that counts from the call that returns it.
class SearchTime {
 public:
  /// `seconds`: from now, 0: no limit.
  explicit SearchTime(double seconds, Deadline::StopRequested stop_requested = {},
                      Deadline::WallClock clock = {});

  [[nodiscard]] bool limited() const { return all_.limited(); }
  /// The parts before the report. The search gets the time that baselines and the lower bound leave.
  [[nodiscard]] Deadline baselines() const;    ///< half of all
  [[nodiscard]] Deadline lower_bound() const;  ///< at most a tenth
  [[nodiscard]] Deadline search() const;
  /// Reserves time for the report, which takes about this long: from a tenth to three tenths of the whole.
  void keep_for_report(double seconds);
  /// No request ends the report. It may exceed the whole time by a twentieth of it and 0.3 s.
  [[nodiscard]] Deadline report() const;
  /// The budget, cut to the time left for trying changes after the report; at least a fifth of a second.
  [[nodiscard]] TryBudget shortened(TryBudget budget) const;

 private:
  [[nodiscard]] Deadline before_report(double share) const;

  double seconds_;
  Deadline all_, late_;
  double kept_;
};

}  // namespace pipesim
