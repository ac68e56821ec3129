#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topologies/files/nccl_dump.h"
#include "topologies/topology.h"

namespace pipesim {

/// Whether hosts of one file share their NVSwitches. NCCL writes several hosts to one file only where they do
/// (MNNVL: NVL72 and the like), and joins them.
enum class NvlinkDomain : std::uint8_t {
  Auto,    ///< joined, unless their NVLinks lead to switches that an x86 host sees as its own
  Joined,  ///< all hosts of the file, and their copies, are one domain
  Hosts,   ///< each host is its own
};

/// Settings of an import that a dump does not contain.
struct NcclImport {
  std::string name;                ///< of the topology
  std::string source;              ///< the file, for messages
  std::int64_t copies = 1;         ///< of the hosts, all on one network
  std::optional<DeviceKind> kind;  ///< of all GPUs; none: by their names or PCI device ids
  std::string origin = {};         ///< where figures come from; "": NCCL's topology `source`
  NvlinkDomain domain = NvlinkDomain::Auto;
};

struct ImportedTopology {
  Topology topology;
  std::vector<std::string> notes;  ///< what was added, left out or had to be assumed
};

/// The topology of a dump: GPUs, NVLinks (a switch stands for all NVSwitches of a domain), bridges, CPUs and,
/// with more than one domain, NICs on one network that keeps up with all of them. Hosts of one NVLink domain
/// are one node. Rates are those that NCCL counts with (link_rates.h); latencies are those of the presets.
/// What a file of PCI devices leaves to NCCL is added first (nccl_completion.h). Memory is the GPUs' where
/// they tell it (the least of a kind), else that of the kind. InputError `FILE:LINE: …`, without a line where
/// there is no file, when there are no GPUs, a GPU's kind is unknown, or a built-in `kind` is of another
/// maker than the GPUs, where these tell theirs.
ImportedTopology topology_of(NcclDump dump, const NcclImport& import);

}  // namespace pipesim
