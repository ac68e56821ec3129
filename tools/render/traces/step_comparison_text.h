#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/traces/comparing/step_comparison.h"

namespace pipesim {

std::string to_text(const StepComparison& comparison);
nlohmann::ordered_json json_of(const StepComparison& comparison);

/// Chrome trace events (JSON): one process with what `part` predicts of the device, one with the
/// measured step, both from 0 on; and one that has the comparison's work, predicted above measured, the
/// largest differences first.
std::string trace_of_both(const SimulatedPart& part, DeviceId device, const MeasuredTrace& trace,
                          const TracedStep& step, const StepComparison& comparison);

}  // namespace pipesim
