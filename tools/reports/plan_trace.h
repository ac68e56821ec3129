#pragma once

#include <string>

#include "search/evaluator.h"

namespace pipesim {

/// The evaluator's labelled task graph and timeline as a Chrome trace: devices as processes with their
/// compute lane and the links that leave them as threads, other links under "network"; arrows along
/// transfers. Of a pipeline devices are named with their stages, and tasks tell stage and microbatch.
std::string trace_of(Evaluator& evaluator);

/// The critical path, longest steps first, a line each, of the strategy that the evaluator has just scored.
std::string critical_steps_text(Evaluator& evaluator, const BoundStrategy& strategy, std::size_t most);

}  // namespace pipesim
