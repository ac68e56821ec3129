#pragma once

#include <span>

#include "executor/gpu/machine/machine.h"
#include "models/operator_graph.h"

namespace pipesim::gpu {

/// InputError when devices can't compute in the type of a tensor: names the tensor, its operator, the type
/// and what the machine says (`operator "fc1" makes "fc1.out" in bfloat16: gpu0 (Tesla T4) has no …`).
void require_types(const OperatorGraph& graph, const Machine& machine);

/// The memory that a plan needs on a device.
struct MemoryDemand {
  DeviceId device;
  Bytes predicted;  ///< the simulator's peak, without data inputs and what kernels use meanwhile
  Bytes asked;      ///< for all buffers
};

/// InputError when less memory is free than is needed: on each device, or on all together if they share their
/// memory. The message lists for each device the predicted peak, the requested memory, and the free memory.
void require_memory(std::span<const MemoryDemand> demands, const Machine& machine);

}  // namespace pipesim::gpu
