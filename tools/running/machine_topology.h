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

/// What a topology of a machine is made of.
struct MachineDescription {
  std::string name;   ///< of the topology
  NcclCpu processor;  ///< of each NUMA node
  GpuInventory gpus;
};

/// This machine, by the name of its host. DeviceError when libpipesim_cuda.so can't be loaded.
MachineDescription this_machine();

/// The topology of a machine that was asked itself, wired as that of what NCCL would write down there (see
/// topology_of), less NICs. GPUs that reach no neighbour below their PCIe switches without the host's memory
/// hang on their processors; NVLinks count where CUDA grants access to the peer. DeviceError when there are
/// no GPUs, InputError when a kind is unknown and none is given for all.
ImportedTopology topology_of(const MachineDescription& machine, const std::optional<DeviceKind>& kind);

/// The first GPU of a machine, divided so (see divided_gpu). Errors as above.
ImportedTopology topology_of(const MachineDescription& machine, const GpuShare& share,
                             const std::optional<DeviceKind>& kind);

/// What the first GPU of this machine gives each of so many virtual devices. DeviceError when there is none;
/// InputError when it can't be divided into so many.
GpuShare share_of_this_machine(int parts);

}  // namespace pipesim
