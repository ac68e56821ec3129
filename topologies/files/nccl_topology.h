#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topologies/files/nccl_dump.h"
#include "topologies/topology.h"

namespace pipesim {

/// Settings of an import that a dump does not contain.
struct NcclImport {
  std::string name;                ///< of the topology
  std::string source;              ///< the file, for messages
  std::int64_t copies = 1;         ///< of the hosts, all on one network
  std::optional<DeviceKind> kind;  ///< of all GPUs; none: by their names or PCI device ids
  std::string origin = {};         ///< where figures come from; "": NCCL's topology `source`
};

struct ImportedTopology {
  Topology topology;
  std::vector<std::string> notes;  ///< what had to be assumed
};

/// The topology of a dump: GPUs, NVLinks (a switch stands for all NVSwitches of a host), bridges, CPUs and,
/// with more than one host, NICs on one network that keeps up with all of them. Rates are those that NCCL
/// counts with (src/graph/topo.h and topo.cc): NVLinks by compute capability, PCIe by GT/s and lanes, CPUs by
/// vendor and model, networks at 12 of 12.5 GB/s; latencies are those of the presets. Memory is the GPUs'
/// where they tell it (the least of a kind), else that of the kind. InputError `FILE:LINE: …`, without a line
/// where there is no file, when there are no GPUs, a GPU's kind is unknown, or NVLinks lead nowhere.
ImportedTopology topology_of(const NcclDump& dump, const NcclImport& import);

}  // namespace pipesim
