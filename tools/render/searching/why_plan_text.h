#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/searching/why_plan.h"

namespace pipesim {

std::string to_text(const WhyPlan& why);
/// A JSON object with "reason" and "against_baseline" (null without one) and "one_more_change".
nlohmann::ordered_json json_of(const WhyPlan& why);

}  // namespace pipesim
