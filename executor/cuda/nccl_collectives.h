#pragma once

#include <memory>

#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// Collectives by NCCL: one rank for each GPU, of this process and of the others. The machine's devices are
/// GPUs of their own. `processes.gather` is called by prepare() only. DeviceError with NCCL's reason.
std::unique_ptr<Collectives> make_nccl_collectives(Machine& machine, const Processes& processes);

}  // namespace pipesim::gpu
