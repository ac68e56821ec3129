#pragma once

#include <span>

#include "executor/gpu/machine/machine.h"
#include "models/operator_graph.h"

namespace pipesim::gpu {

/// InputError when devices can't compute in the type of a tensor: names the tensor, its operator, the type
/// and what the machine says (`operator "fc1" makes "fc1.out" in bfloat16: gpu0 (Tesla T4) has no …`).
void require_types(const OperatorGraph& graph, const Machine& machine);

/// What a plan takes of a device's memory.
struct MemoryDemand {
  DeviceId device;
  Bytes predicted;  ///< the simulator's peak, without data inputs and what kernels use meanwhile
  Bytes asked;      ///< for all buffers
};

/// InputError when less is free than is asked for: by each device, or by all together where they share their
/// memory. Says of each device what was predicted, what is asked for, and what is free.
void require_memory(std::span<const MemoryDemand> demands, const Machine& machine);

}  // namespace pipesim::gpu
