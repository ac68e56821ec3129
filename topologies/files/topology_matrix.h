#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topologies/files/nccl_dump.h"
#include "topologies/topology.h"

namespace pipesim {

/// Whether a text looks like what `nvidia-smi topo -m` or `rocm-smi --showtopo` prints.
bool is_topology_matrix(std::string_view text);

/// The machine that such a text describes. Of nvidia-smi: a table of GPUs and NICs whose cells are NV# (so
/// many NVLinks), PIX (one PCIe switch), PXB (several), PHB and NODE (one processor) or SYS
/// (another one; SOC in old drivers). Of
/// rocm-smi: tables of hops and of link types, XGMI or PCIE, and NUMA nodes. GPUs are named where the text
/// also has the lines of `nvidia-smi -L` or `rocm-smi --showproductname`. Neither tells PCIe's generation,
/// the processors or the NICs' rates: these are guessed by the kind of GPU, with a line each. `kind`: of all
/// GPUs, if it is given. InputError `FILE:LINE: …` for tables that are not whole or contradict themselves.
NcclDump parse_topology_matrix(std::string_view text, const std::string& source,
                               const std::optional<DeviceKind>& kind);

}  // namespace pipesim
