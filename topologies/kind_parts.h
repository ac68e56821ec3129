#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topologies/topology.h"

/// What the files of built-in kinds have in common. Figures and their sources: topologies/device_kinds.h.
namespace pipesim::kinds {

using Peaks = std::map<DataType, FlopsPerSecond>;

inline FlopsPerSecond tera(double teraflops) { return FlopsPerSecond(teraflops * 1e12); }

struct Memory {
  double gigabytes;             ///< 10⁹ bytes
  double gigabytes_per_second;  ///< peak
  double efficiency;            ///< achievable share of it, in (0, 1]
};

/// Who says which figure.
struct Provenance {
  std::string datasheet;  ///< peak rates, memory and its bandwidth
  std::string measured;   ///< published measurements of others
  std::string estimated;
};

inline constexpr const char* kLaunchAsMeasured = "launch overhead as on A100, H100 and H200";
inline constexpr const char* kNothingMeasured = "nothing";

/// `limit`: the fraction of peak that large, well-shaped kernels reach. The curve is flat: smaller ones are
/// slower by their fixed time alone.
DeviceKind kind(std::string name, Peaks peak, double limit, Memory memory, const Provenance& from);

/// With what frameworks take of the `mebibytes` that nvidia-smi reports.
DeviceKind with_frameworks(DeviceKind kind, std::int64_t mebibytes);

DeviceKind with_fused_attention(DeviceKind kind, FusedAttention shares, const std::string& from);
DeviceKind with_flash_attention_2(DeviceKind kind);  ///< long sequences, heads of 128
/// What cuDNN's kernels reach, which Transformer Engine takes; those of FlashAttention are about as fast.
DeviceKind with_measured_attention(DeviceKind kind, FusedAttention shares, const std::string& from);
DeviceKind with_hopper_attention(DeviceKind kind);
DeviceKind with_flash_attention_2_on_hopper(DeviceKind kind);  ///< beside those of a later version

/// The middle of NCCL's calls of 1 to 256 KiB on 2 to 8 GPUs, less what their steps take.
DeviceKind with_collectives(DeviceKind kind, CollectiveTraits traits, const std::string& from);
DeviceKind with_ampere_collectives(DeviceKind kind);
DeviceKind with_hopper_collectives(DeviceKind kind);
DeviceKind with_blackwell_collectives(DeviceKind kind);

inline constexpr double kSustainedAmpere = 0.93, kSustainedHopper = 0.8, kSustainedNarrow = 0.9;
/// Sets the share of the rate that products sustain in runs of hours.
DeviceKind with_sustained(DeviceKind kind, double share, const std::string& from = "estimated");

/// Shares of the peak rate by FLOPs of a product: 17 and 55 GFLOP, and the same by ten up to 5.5 TFLOP.
using NarrowShares = std::array<double, 6>;
/// Rates of products in eight and four bits. Each share is the median of products of those FLOPs, at least
/// 1024 rows high, in the fastest of three inference frameworks; TransformerEngine and PyTorch call the same
/// library. `sustained`: what those lose whose power was logged, so which ran for long.
DeviceKind with_narrow_products(DeviceKind kind, const std::map<DataType, NarrowShares>& shares,
                                double sustained);
/// The kind at another power limit. Where power limits the clock, it goes with the third root of power, since
/// voltage goes with the clock: sustained products and attention follow.
DeviceKind at_power(DeviceKind kind, double watts, double usual_watts);

std::vector<DeviceKind> data_center_kinds();  ///< NVIDIA, with HBM
std::vector<DeviceKind> card_kinds();         ///< NVIDIA, with GDDR
std::vector<DeviceKind> amd_kinds();
std::vector<DeviceKind> tpu_kinds();

}  // namespace pipesim::kinds
