#pragma once

#include "sim/base/deadline.h"
#include "tools/analysis/searching/why_plan.h"

namespace pipesim {

/// Divides the time of --seconds between the search and the report of a command. The command is done at the
/// end of the time, at the latest a tenth of it and half a second later. Without --seconds no part has a time
/// limit.
class SearchTime {
 public:
  /// `seconds`: from now, 0: no limit.
  explicit SearchTime(double seconds, Deadline::WallClock clock = {});

  [[nodiscard]] bool limited() const { return all_.limited(); }
  /// A tenth of the time is left for the report.
  [[nodiscard]] Deadline search() const;
  /// It may exceed the whole time by a twentieth of it and 0.3 s.
  [[nodiscard]] Deadline report() const;
  /// The budget, cut to the time left for trying changes after the report; at least a fifth of a second.
  [[nodiscard]] TryBudget shortened(TryBudget budget) const;

 private:
  double seconds_;
  Deadline all_, late_;
};

}  // namespace pipesim
