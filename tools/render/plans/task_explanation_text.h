#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/analysis/plans/task_explanation.h"

namespace pipesim {

/// The matches where there are several, then the chain, a line a task. Of repeats (the same work on the same
/// device, and rounds of these) the first is shown, and a line for the others. At most `most` lines of
/// either.
std::string to_text(const TaskExplanation& explanation, const SimulatedPart& part,
                    const BoundStrategy& strategy, std::size_t most);
/// A JSON object with "task", "matches" and "chain", all of it.
nlohmann::ordered_json json_of(const TaskExplanation& explanation, const SimulatedPart& part,
                               const BoundStrategy& strategy);

}  // namespace pipesim
