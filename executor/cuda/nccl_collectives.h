#pragma once

#include <memory>

#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// Returns collectives of NCCL, with one rank for each GPU of this process and of the others. Each device of
/// the machine must be a GPU of its own. `processes.gather` is called by prepare() only. DeviceError with
/// NCCL's reason.
std::unique_ptr<Collectives> make_nccl_collectives(Machine& machine, const Processes& processes);

}  // namespace pipesim::gpu
