#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "search/planners/planner.h"

namespace pipesim {

/// The stages of a plan, what each of several algorithms contributed, and the plans that were tried.
std::string to_text(const PlannerAnswer& planned, const Topology& topology);

/// A list of what each of several algorithms contributed. All rows have the same keys; what a row has no plan
/// for is null.
nlohmann::ordered_json contributions_json(const PlannerAnswer& planned);

/// A JSON object with unit, value, text and activation_factor (null where there is none).
nlohmann::ordered_json json_of(const PlannerObjective& objective);

}  // namespace pipesim
