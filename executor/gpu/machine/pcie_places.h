#pragma once

#include <string>

#include "executor/gpu/machine/inventory.h"

namespace pipesim {

/// Adds the positions of GPUs as Linux reports them: NUMA nodes, PCIe switches, and links that are not known
/// yet. `devices` is a folder of links named by bus ids, each to the folder of a device inside that of the
/// bridge above it (Documentation/ABI/testing/sysfs-bus-pci of Linux). Values that are not found there stay
/// as they were.
void add_pcie_places(GpuInventory& inventory, const std::string& devices = "/sys/bus/pci/devices");

}  // namespace pipesim
