#pragma once

#include <string>

#include "search/evaluator.h"

namespace pipesim {

/// The evaluator's labelled task graph and timeline as a Chrome trace: devices as processes with their
/// compute lane and the links that leave them as threads, other links under "network"; arrows along
/// transfers. Of a pipeline devices are named with their stages, and tasks tell stage and microbatch.
std::string trace_of(Evaluator& evaluator);

/// Why a task started when it did, back to the start of the iteration or for `most` steps, a line each.
/// `which` is a task id, or text that its description contains ("fc1 forward on node0.gpu0"). InputError when
/// no task fits.
std::string explanation_of(const Evaluator& evaluator, const std::string& which, std::size_t most);

/// The critical path, longest steps first, a line each.
std::string critical_steps_text(const Evaluator& evaluator, std::size_t most);

}  // namespace pipesim
