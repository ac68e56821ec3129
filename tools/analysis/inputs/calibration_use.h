#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "search/evaluator.h"

namespace pipesim {

/// What --calibration names: durations (SQLite), constants (JSON), or one of each, separated by a comma.
/// InputError as in load_calibration and parse_constants, or for two of a kind.
Calibration load_calibrations(const std::string& files);

/// Opens what --calibration names; none for "". InputError as load_calibrations(). Warns on `err` when the
/// calibration comes from another host than this one, or from other devices than the topology's, and says
/// what differs.
std::optional<Calibration> open_calibration(const std::string& file, const Topology& topology,
                                            std::ostream& err);
/// Writes those warnings, for a calibration that was read from `file`.
void warn_of_differences(const Calibration& calibration, const std::string& file, const Topology& topology,
                         std::ostream& err);
/// A pointer for CostModel; null when there is no calibration.
inline const Calibration* pointer_to(const std::optional<Calibration>& calibration) {
  return calibration ? &*calibration : nullptr;
}

/// A duration that was not measured, and the tasks of a plan that use it.
struct Guess {
  std::string key;  ///< CalibrationKey::str(): what to measure
  DurationSource source = DurationSource::Analytic;
  std::int64_t tasks = 0;
  double share = 0;  ///< of the time of all tasks of the plan
};

/// Where the durations of a plan's tasks come from.
struct CalibrationUse {
  std::array<std::int64_t, 4> tasks{};  ///< by DurationSource
  std::array<double, 4> share{};        ///< of the time of all tasks, by DurationSource
  std::vector<Guess> guesses;           ///< largest share first
};

/// How much of a plan the calibration covers. The evaluator must have evaluated `strategy` last.
CalibrationUse calibration_use(Evaluator& evaluator, const BoundStrategy& strategy);

}  // namespace pipesim
