#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/plans/plan_reason.h"

namespace pipesim {

/// A few sentences; the first says why.
std::string to_text(const PlanReason& reason);
/// The text in lines below each other, "  why  " before the first.
std::string why_lines(const PlanReason& reason);
/// A JSON object; its "text" is to_text().
nlohmann::ordered_json json_of(const PlanReason& reason);

}  // namespace pipesim
