#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// The kinds that pipesim knows by name: K80 (one GK210), P100-SXM2, P100-PCIe, V100-SXM2-16GB,
/// V100-SXM2-32GB, V100-PCIe, A100-40GB, A100-80GB, H100-SXM5, H800, H200, B200, GB200 (one of a
/// superchip's two GPUs).
///
/// Nothing was measured by pipesim: `source` says of every figure whether it stands in a datasheet, follows
/// from published measurements of others, or is estimated. It begins with "datasheet: ".
///
/// Peak rates are the dense ones of the datasheets; a data type that a chip does not multiply natively is
/// missing. Memory is the datasheet's GB taken as 10⁹ bytes: chips hold GiB, and the difference (7 %) is
/// about what driver and library contexts keep for themselves.
///
/// A kernel takes its work at limit · peak, plus 2.7 µs (`launch_overhead`). Both were fitted (least mean
/// |log error|, one fixed time for all and a limit per chip) to the bfloat16 GEMMs of
/// ai-dynamo/aiconfigurator that are bound by compute, whose dimensions are ≥ 128 and multiples of 64, and
/// that lose less than 15 % to partly filled tiles or waves: 47 on A100, 238 on H100, 284 on H200. Limits:
/// A100 0.817, H100 0.767, H200 0.776; mean |log error| 4.8 %, also on rows left out of the fit. Chips
/// without such measurements take the same fixed time and the limit that their source names. Beyond 2·10¹²
/// flops the measured chips lose a further 3–8 % to their power limit, which is left out. A size-dependent
/// curve can be given for kinds in a file.
std::span<const DeviceKind> built_in_device_kinds();
/// Null when there is none of that name.
const DeviceKind* find_built_in_device_kind(std::string_view name);
std::vector<std::string> built_in_device_kind_names();

}  // namespace pipesim
