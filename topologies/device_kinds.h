#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// The kinds that pipesim knows by name. NVIDIA: K80 (one GK210), P100-SXM2, P100-PCIe, V100-SXM2-16GB,
/// V100-SXM2-32GB, V100-PCIe, A100-40GB, A100-80GB, A800, H100-SXM5, H100-500W, H800, H200, H100-PCIe,
/// H100-NVL, H20, B200, GB200 and GB300 (one of a superchip's two GPUs), B300, L40S, L4, RTX-3090, RTX-4090,
/// RTX-5090, RTX-PRO-6000. AMD: MI60, MI100, MI210, MI250 and MI250X (one of two dies), MI300A, MI300X,
/// MI325X, MI350X, MI355X. Google: TPU-v5e, TPU-v5p, TPU-v6e.
///
/// Nothing was measured by pipesim: `source` says of every figure whether it stands in a datasheet, follows
/// from published measurements of others, or is estimated. It begins with "datasheet: ".
///
/// Peak rates are the dense ones of the datasheets; a data type that a chip does not multiply natively is
/// missing. Memory is the datasheet's GB taken as 10⁹ bytes. Chips hold more, mostly GiB: what the driver
/// reports (MemoryOverhead::installed), of which frameworks take their part.
///
/// What frameworks take (MemoryOverhead) is known of NVIDIA's kinds from A100 on but GB200 and GB300; plans
/// for other kinds may use all of the datasheet's memory.
/// - installed: what nvidia-smi reports: 40960, 81920 (A100, A800), 81559 (H100, H800), 95830 (H100-NVL),
/// 97871
///   (H100-500W, H20), 143771 (H200), 183359 (B200), 275040 (B300), 46068 (L40S), 23034 (L4), 24576, 24564,
///   32607 (RTX 3090, 4090, 5090), 97887 MiB (RTX PRO 6000).
/// - context, 1.2 GB: estimated; hashcat finds 182642 of a B200's 183359 MiB in all, and 182014 free.
/// - a communicator, 688 MiB: measured of groups of more than two A100 over NVLink; a group of two took 544
///   MiB (github.com/NVIDIA/nccl/issues/964). Each takes as much again, unless the program shares the
///   buffers (…/issues/986). Other reports have 1.6 GB for one and 6 GB for three and more (…/issues/864), or
///   3.3 GB for all-to-all on eight H100 (…/issues/1685).
/// - fragmentation, 3 %: estimated.
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
