#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipesim {

/// The properties of a PCIe link between its two ends.
struct PcieLink {
  int generation = 0;  ///< 5 for 32 GT/s a lane, 0: not known
  int lanes = 0;       ///< 0: not known
  bool operator==(const PcieLink&) const = default;
};

/// A PCIe switch, by its port towards the processor.
struct PcieSwitch {
  std::string bus_id;  ///< "0000:16:00.0"
  PcieLink link;       ///< towards the processor
  bool operator==(const PcieSwitch&) const = default;
};

/// A GPU of this machine, as CUDA numbers them.
struct Gpu {
  std::string name;    ///< "NVIDIA H200"
  std::string bus_id;  ///< "0000:18:00.0"
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory = 0, free_memory = 0;  ///< bytes
  PcieLink pcie;
  int numa_node = -1;                ///< of the processor that it hangs on, -1: not known
  std::vector<PcieSwitch> switches;  ///< on the way from that processor
};

/// The connection between two GPUs.
struct GpuPair {
  int first = 0, second = 0;  ///< of GpuInventory::gpus, first < second
  bool peer_access = false;   ///< over PCIe or NVLink, without the host's memory
  int nvlinks = 0;            ///< direct ones
};

/// The GPUs and libraries of this machine. Versions are written as "13.0"; "" when the library is not loaded.
struct GpuInventory {
  std::string driver;  ///< the newest CUDA that it supports
  std::string runtime, cublas, cudnn, nccl, cupti;
  std::string no_gpus;  ///< why there are none; "" where there are
  std::vector<Gpu> gpus;
  std::vector<GpuPair> pairs;
  std::vector<int> switch_nvlinks;  ///< by GPU: to NVSwitches
};

}  // namespace pipesim
