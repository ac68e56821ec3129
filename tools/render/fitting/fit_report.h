#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/fitting/fit_runs.h"

namespace pipesim {

/// What was found, and which runs to make next. `file`: where the constants are.
std::string to_text(const RunsFit& fit, const std::string& file);
nlohmann::ordered_json json_of(const RunsFit& fit);

}  // namespace pipesim
