#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/analysis/inputs/plan_origin.h"

namespace pipesim {

/// Some lines for people; "" where there are no others.
std::string to_text(const std::vector<OtherOrigin>& others);
/// A JSON list of {made_for, here}, or {made_for, unknown}.
nlohmann::ordered_json json_of(const std::vector<OtherOrigin>& others);

}  // namespace pipesim
