#pragma once

#include <string>

#include "executor/gpu/machine/inventory.h"

namespace pipesim {

/// Adds where GPUs sit, as Linux tells: NUMA nodes and switches of PCIe, and those links that are not known
/// yet. `devices` is a folder of links named by bus ids, each to the folder of a device inside that of the
/// bridge above it (Documentation/ABI/testing/sysfs-bus-pci of Linux). What is not there stays as it was.
void add_pcie_places(GpuInventory& inventory, const std::string& devices = "/sys/bus/pci/devices");

}  // namespace pipesim
