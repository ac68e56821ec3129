#pragma once

#include <string>
#include <vector>

#include "search/evaluator.h"
#include "sim/explain.h"

namespace pipesim {

/// By lane of the topology: the device that computes there or that the link leaves, in a pipeline with its
/// stages ("gpu0 (stages 0, 4)"); "network" for links between switches, and a bus by its name. The part must
/// have labels.
std::vector<std::string> owners_of_lanes(const SimulatedPart& part);

/// The simulated tasks, which must have labels, as a Chrome trace: devices as processes with their compute
/// lane and the links that leave them as threads, other links under "network"; arrows along transfers. Of a
/// pipeline devices are named with their stages, and tasks tell stage and microbatch.
std::string trace_of(const SimulatedPart& part);

/// The longest parts of a critical path, a line each: steps that differ in their microbatch only are added
/// up. `path`: through `part`, which must have labels and be of this strategy.
std::string critical_steps_text(const SimulatedPart& part, const BoundStrategy& strategy,
                                const CriticalPath& path, std::size_t most);

}  // namespace pipesim
