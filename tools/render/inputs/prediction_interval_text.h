#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/inputs/prediction_interval.h"

namespace pipesim {

/// Returns a row below a plan's report; "" where there is nothing to say.
std::string to_text(const Reliance& reliance);
/// Returns members of a JSON object: runtime, and interval_s or uncalibrated.
nlohmann::ordered_json json_of(const Reliance& reliance);

}  // namespace pipesim
