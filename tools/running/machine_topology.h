#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/gpu/machine/inventory.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/gpu_share.h"

namespace pipesim {

/// The GPUs of this machine, with where they sit. DeviceError when libpipesim_cuda.so can't be loaded.
GpuInventory gpus_of_this_machine();

/// A processor as NCCL describes it, of what /proc/cpuinfo holds and what `uname -m` prints ("x86_64").
NcclCpu processor_of(std::string_view cpuinfo, std::string_view architecture);

/// The input from which a machine's topology is made.
struct MachineDescription {
  std::string name;   ///< of the topology
  NcclCpu processor;  ///< of each NUMA node
  GpuInventory gpus;
};

/// This machine, by the name of its host. DeviceError when libpipesim_cuda.so can't be loaded.
MachineDescription this_machine();

/// The topology of a machine, from its own description. It is wired like the topology from NCCL's dump of the
/// same machine (see topology_of), without NICs. GPUs that reach no neighbour below their PCIe switches
/// without the host's memory are attached to their processors. NVLinks count where CUDA grants access to the
/// peer. DeviceError when there are no GPUs; InputError when a kind is unknown and none is given for all.
ImportedTopology topology_of(const MachineDescription& machine, const std::optional<DeviceKind>& kind);

/// The first GPU of a machine, divided into such parts (see divided_gpu). Errors as above.
ImportedTopology topology_of(const MachineDescription& machine, const GpuShare& share,
                             const std::optional<DeviceKind>& kind);

/// The share of this machine's first GPU that each of `parts` virtual devices gets. DeviceError when there is
/// no GPU; InputError when it can't be divided like this.
GpuShare share_of_this_machine(int parts);

}  // namespace pipesim
