#pragma once

#include <cstdint>
#include <string_view>

#include "topologies/files/nccl_dump.h"

namespace pipesim {

/// Rates in GB/s and direction that NCCL counts with (NCCL src/graph/topo.h and topo.cc), RCCL's for AMD's
/// GPUs (RCCL src/graph/topo.h).

double nvlink_gigabytes(std::int64_t capability);      ///< of one NVLink, by compute capability (90: 9.0)
double xgmi_gigabytes(std::string_view architecture);  ///< of one xGMI link, of "gfx942"
double between_processors(const NcclCpu& cpu, bool amd_gpus);  ///< of a host; RCCL's figures are older

/// Whether NCCL has a rate for this processor; for others it is the lowest.
bool knows_processor(const NcclCpu& cpu);

/// What a PCIe link carries: 75 % of its lanes' rate.
struct PcieRate {
  double gigabytes = 0;
  bool guessed = false;  ///< speed or width is not told: PCIe 3.0, 16 lanes
};
PcieRate pcie_rate(const NcclPci& pci);

}  // namespace pipesim
