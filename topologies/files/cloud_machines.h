#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "topologies/files/nccl_dump.h"

namespace pipesim {

/// A virtual or rented machine whose owner ships an NCCL_TOPO_FILE without PCI ids: its GPUs are known by
/// their addresses alone.
struct CloudMachine {
  std::string_view name;        ///< "Azure ND A100 v4"
  std::string_view kind;        ///< of its GPUs
  std::string_view other_kind;  ///< of another machine with the same file; "": none
  std::int64_t nic_gigabits = 0;
};

/// The machine of which all these GPUs are, on such a processor. Null when it is none that is known.
const CloudMachine* find_cloud_machine(const NcclCpu& cpu, std::span<const NcclPci* const> gpus);

}  // namespace pipesim
