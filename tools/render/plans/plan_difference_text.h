#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/plans/plan_difference.h"

namespace pipesim {

/// Tables of figures, with the plans' names on top, and of at most `most` changes.
std::string to_text(const PlanDifference& difference, const OperatorGraph& graph,
                    const std::array<std::string, 2>& names, std::size_t most);
/// A JSON object: figures as {"baseline": …, "plan": …} by key, and "changes", all of them.
nlohmann::ordered_json json_of(const PlanDifference& difference, const OperatorGraph& graph);

}  // namespace pipesim
