#pragma once

#include <span>

#include "executor/program/device_kernels.h"
#include "executor/program/program.h"
#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Turns a task graph into instructions for the devices of `local`. `expanded` has labels.
/// `simulated` is its timeline, which decides the order of every list. Every process of a run compiles the
/// same order, whichever devices are its own. InputError for operators without a kernel;
/// InternalError if the lists could wait for each other.
Program compile(const ExpandedStrategy& expanded, const Timeline& simulated, const DeviceKernels& kernels,
                std::span<const DeviceId> local);

}  // namespace pipesim
