#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topologies/files/nccl_dump.h"
#include "topologies/files/pci_devices.h"
#include "topologies/topology.h"

namespace pipesim {

/// The product of a GPU: by its name or its PCI ids, unless `kind` is one of another product. Null when it is
/// unknown.
const GpuProduct* product_of(const NcclPci& gpu, const std::optional<DeviceKind>& kind);

/// Adds what NCCL finds itself on a machine whose file names PCI devices only (src/graph/xml.cc,
/// ncclTopoGetXmlFromGpu; the network plugins): kinds of GPUs and their NVLinks by PCI ids, NICs with their
/// rates. Leaves out NVLinks that lead to GPUs which are not there, and makes one of switches of PCIe that
/// show two levels. `kind`: of all GPUs, if it is given. Everything added, left out or missing is a line of
/// `notes`.
void complete_as_nccl(NcclDump& dump, const std::optional<DeviceKind>& kind, std::vector<std::string>& notes);

}  // namespace pipesim
