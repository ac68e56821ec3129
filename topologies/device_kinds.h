#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// The kinds that pipesim knows by name: K80 (one GK210), P100-SXM2, P100-PCIe, V100-SXM2-16GB,
/// V100-SXM2-32GB, V100-PCIe, A100-40GB, A100-80GB, H100-SXM5, H200, B200.
///
/// Peak rates are the dense ones of the datasheets; a data type that a chip does not multiply natively is
/// missing. Memory is the datasheet's GB taken as 10⁹ bytes: chips hold GiB, and the difference (7 %) is
/// about what driver and library contexts keep for themselves. Launch overhead is 5 µs for all, an estimate:
/// a kernel that is launched and waited for takes 4 to 6 µs on these systems, and the device's own fixed time
/// per kernel is inside the efficiency curve below.
std::span<const DeviceKind> built_in_device_kinds();
/// Null when there is none of that name.
const DeviceKind* find_built_in_device_kind(std::string_view name);
std::vector<std::string> built_in_device_kind_names();

/// Efficiency of large, well-shaped kernels by size: limit / (1 + peak · 2.7 µs / flops), a point per
/// doubling from 1/512 to 512 times the size that reaches half the limit.
///
/// That is a kernel of fixed time 2.7 µs / limit. Both figures were fitted (least mean |log error|, one fixed
/// time and a limit per chip, four parameters in all) to the bfloat16 GEMMs of ai-dynamo/aiconfigurator that
/// are bound by compute (FLOPs at peak take over twice as long as bytes), whose dimensions are ≥ 128 and
/// multiples of 64, and that lose less than 15 % to partly filled tiles of 128×128 or partly filled waves: 47
/// on A100, 238 on H100, 284 on H200. Limits: A100 0.817, H100 0.767, H200 0.776. Mean |log error| 4.8 %;
/// fitted to half the rows, 4.8 % on the other half. Freeing an exponent on peak · t / flops gains 0.01 %.
/// Beyond 2·10¹² flops the measured chips lose a further 3–8 % to their power limit, which the curve leaves
/// out.
std::vector<EfficiencyPoint> saturating_efficiency(FlopsPerSecond peak, double limit);

}  // namespace pipesim
