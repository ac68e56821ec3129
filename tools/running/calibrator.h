#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "executor/measuring/sample_set.h"
#include "tools/cli/status_line.h"
#include "tools/inputs/plan_set.h"
#include "tools/running/plan_run.h"

namespace pipesim {

/// Measures what tasks of plans take by running the plans: kernels in their order, with their caches and
/// neighbours.
class Calibrator {
 public:
  /// `progress` gets one line that changes, if it is standard error and that is a terminal.
  Calibrator(const RunSetting& setting, std::ostream& progress);

  /// Runs all plans in turns, so that what else the host does meets all alike. At least one. On parts of one
  /// GPU, those that a plan leaves idle run copies of it (side_by_side), unless links are emulated.
  void sample(const std::vector<NamedSubject>& plans);
  /// By key, of all plans that were run.
  [[nodiscard]] std::vector<Measurement> measurements() const { return samples_.all(); }

  /// What tasks take whose durations `plans` had to be told from other sizes: corrections by class, for their
  /// calibrations, which must have none. Classes of which hardly anything had to be estimated are left
  /// out.
  std::map<std::string, Correction> fit(const std::vector<NamedSubject>& plans);

 private:
  [[nodiscard]] NamedSubject busy(NamedSubject plan) const;
  PlanSamples run(const NamedSubject& plan, std::int64_t steps);

  RunSetting setting_;
  StatusLine line_;
  SampleSet samples_;
};

}  // namespace pipesim
