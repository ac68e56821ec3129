#pragma once

#include <cstdint>

#include "topologies/topology.h"

namespace pipesim {

/// `devices` threads of one host, cpu0 …, each with a core of its own, which pass tensors to each other
/// through memory: the devices that `pipesim execute --backend cpu` runs on. Copying keeps a core busy, so
/// transfers do not overlap with compute. The figures are those of no machine in particular: two 8-wide
/// multiply-adds a cycle at 2.5 GHz and a share of the memory's bandwidth. Calibrate for the machine at hand.
/// InputError unless 1 ≤ devices ≤ max_devices.
Topology cpu_topology(std::int64_t devices);

}  // namespace pipesim
