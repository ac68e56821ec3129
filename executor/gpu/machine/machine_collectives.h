#pragma once

#include <memory>

#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// Collectives between the devices of one machine that can all read each other's memory, such as the virtual
/// devices of one GPU. Each member copies and adds the data that it receives. Sums are formed in rank order.
/// `machine` must outlive it. DeviceError for more than 64 members.
std::unique_ptr<Collectives> make_machine_collectives(Machine& machine);

}  // namespace pipesim::gpu
