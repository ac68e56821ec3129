#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "tools/analysis/traces/trace_analysis.h"

namespace pipesim {

/// Steps of all devices; operators, launches and slowdowns of the first device; process groups.
std::string to_text(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces);
/// All devices, and all operators of each. Times in seconds.
nlohmann::ordered_json json_of(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces);

}  // namespace pipesim
