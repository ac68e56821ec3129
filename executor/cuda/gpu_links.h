#pragma once

#include <map>
#include <utility>
#include <vector>

#include "executor/gpu/inventory.h"

namespace pipesim {

struct GpuLinks {
  std::map<std::pair<int, int>, int> between;  ///< NVLinks of two GPUs, the lower number first
  std::vector<int> to_switches;                ///< NVLinks by GPU
  std::vector<PcieLink> pcie;                  ///< by GPU: the most that it and its slot can do
};

/// NVLinks that are up and links of PCIe, as the driver's management library (NVML, libnvidia-ml.so.1) tells;
/// none where it is missing.
GpuLinks links_of(const std::vector<Gpu>& gpus);

}  // namespace pipesim
