#pragma once

#include <map>
#include <utility>
#include <vector>

#include "executor/gpu/inventory.h"

namespace pipesim {

struct NvlinkCounts {
  std::map<std::pair<int, int>, int> between;  ///< two GPUs, the lower number first
  std::vector<int> to_switches;                ///< by GPU
};

/// Links that are up, as the driver's management library (NVML, libnvidia-ml.so.1) tells; none where it is
/// missing.
NvlinkCounts count_nvlinks(const std::vector<Gpu>& gpus);

}  // namespace pipesim
