#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/inputs/calibration_use.h"

namespace pipesim {

/// One line: `412 of 530 tasks measured (92% of their time), 80 interpolated, …; largest guess: … (4%,
/// analytic)`.
std::string to_text(const CalibrationUse& use);
/// The same as a row below a plan's report.
std::string durations_line(const CalibrationUse& use);
/// A JSON object with measured, interpolated, extrapolated, analytic (tasks and share of the time of
/// all) and the `most` largest guesses.
nlohmann::ordered_json json_of(const CalibrationUse& use, std::size_t most = 20);

}  // namespace pipesim
