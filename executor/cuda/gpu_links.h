#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "executor/gpu/machine/inventory.h"

namespace pipesim {

struct GpuLinks {
  std::map<std::pair<int, int>, int> between;  ///< NVLinks of two GPUs, the lower number first
  std::vector<int> to_switches;                ///< NVLinks by GPU
  std::vector<PcieLink> pcie;                  ///< by GPU: the most that it and its slot can do
  std::vector<std::int64_t> free_memory;       ///< by GPU, bytes; −1: not known
};

/// Returns the NVLinks that are up, the PCIe links and the free memory, as reported by the driver's
/// management library (NVML, libnvidia-ml.so.1). Nothing is known where it is missing.
GpuLinks links_of(const std::vector<Gpu>& gpus);

}  // namespace pipesim
