#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/running/plan_comparison.h"

namespace pipesim {

std::string to_text(const PlanComparison& comparison);
/// A JSON object: plans, spearman (null where it is not defined), top1_regret, same_order,
/// clear_pairs, wrong_clear_pairs.
nlohmann::ordered_json json_of(const PlanComparison& comparison);

}  // namespace pipesim
