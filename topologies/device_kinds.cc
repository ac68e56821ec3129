#include "topologies/device_kinds.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace pipesim {

namespace {

using Peaks = std::map<DataType, FlopsPerSecond>;

FlopsPerSecond tera(double teraflops) { return FlopsPerSecond(teraflops * 1e12); }

struct Memory {
  double gigabytes;
  double gigabytes_per_second;
  double efficiency;
};

// Who says which figure.
struct Provenance {
  std::string datasheet;  // peak rates, memory and its bandwidth
  std::string measured;   // published measurements of others
  std::string estimated;
};

std::string provenance_text(const Provenance& from) {
  return "datasheet: peak rates, memory and its bandwidth, " + from.datasheet +
         "; measured by others: " + from.measured + "; estimated: " + from.estimated;
}

constexpr const char* kLaunchAsMeasured = "launch overhead as on A100, H100 and H200";

// `limit`: the fraction of peak that large, well-shaped kernels reach. The curve is flat: smaller ones are
// slower by their fixed time alone.
DeviceKind kind(std::string name, Peaks peak, double limit, Memory memory, const Provenance& from) {
  DeviceKind kind;
  kind.name = std::move(name);
  kind.efficiency = {{Flops(1), limit}};
  kind.peak = std::move(peak);
  kind.memory = Bytes(static_cast<std::int64_t>(memory.gigabytes * 1e9));
  kind.memory_bandwidth = BytesPerSecond(memory.gigabytes_per_second * 1e9);
  kind.memory_efficiency = memory.efficiency;
  kind.launch_overhead = Seconds(2.7e-6);
  kind.source = provenance_text(from);
  return kind;
}

// Returns what frameworks take, with the `mebibytes` that nvidia-smi reports; the header names the sources.
MemoryOverhead frameworks_on(std::int64_t mebibytes) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  constexpr double kFragmentation = 0.03;
  return {Bytes(mebibytes * kMebibyte), Bytes(1'200'000'000), Bytes(688 * kMebibyte), kFragmentation};
}

DeviceKind with_frameworks(DeviceKind kind, std::int64_t mebibytes) {
  kind.memory_overhead = frameworks_on(mebibytes);
  return kind;
}

DeviceKind with_fused_attention(DeviceKind kind, FusedAttention shares, const std::string& from) {
  kind.fused_attention = shares;
  kind.source += "; fused attention: " + from;
  return kind;
}

DeviceKind with_collectives(DeviceKind kind, CollectiveTraits traits, const std::string& from) {
  kind.collectives = traits;
  kind.source += "; a call of collectives: " + from;
  return kind;
}
// The middle of NCCL's calls of 1 to 256 KiB on 2 to 8 GPUs, less what their steps take.
constexpr const char* kCallsMeasured = "fitted to NCCL's small calls of ai-dynamo/aiconfigurator on ";
DeviceKind with_ampere_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(9 / 1e6)}, std::string(kCallsMeasured) + "A100");
}
DeviceKind with_hopper_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(5.3 / 1e6), true}, std::string(kCallsMeasured) + "H100");
}
DeviceKind with_blackwell_collectives(DeviceKind kind) {
  return with_collectives(std::move(kind), {Seconds(9 / 1e6), true}, std::string(kCallsMeasured) + "B200");
}

// Long sequences, heads of 128.
DeviceKind with_flash_attention_2(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.73, 0.63},
      "0.73 and 0.63 of peak in forward and backward, Dao, arXiv:2307.08691, section 4.1");
}
DeviceKind with_flash_attention_3(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.62, 0.565},
      "0.62 of peak in forward, 614 of 989 TFLOP/s as pytorch/benchmark measured, and 0.565 "
      "in backward, 559 TFLOP/s, Shah et al., arXiv:2407.08608, figure 6");
}
// Adds the shares of version 2 beside those of a later version.
DeviceKind with_flash_attention_2_on_hopper(DeviceKind kind) {
  kind.flash_attention_2 = {0.37, 0.31};
  kind.source +=
      "; FlashAttention-2: 0.37 and 0.31 of peak in forward and backward, as Shah et al. measured beside "
      "version 3, figures 5 and 6";
  return kind;
}
constexpr double kSustainedAmpere = 0.93, kSustainedHopper = 0.8;
// Sets the share of the rate that products sustain in runs of hours.
DeviceKind with_sustained(DeviceKind kind, double share) {
  kind.sustained = share;
  kind.source += "; sustained: estimated";
  return kind;
}
DeviceKind with_flash_attention_4(DeviceKind kind) {
  return with_fused_attention(
      std::move(kind), {0.71, 0.65},
      "0.71 of peak in forward, 1613 TFLOP/s on B200, as the authors of FlashAttention-4 "
      "report; in backward 0.65, as much less as on H100");
}

using enum DataType;

// Boost clock. Kepler GEMM reaches about what the base clock would give: 2.8 of 4.37 TFLOP/s.
DeviceKind k80() {
  return kind("K80", {{Float32, tera(4.37)}, {Float64, tera(1.45)}}, 0.64, {12, 240, 0.79},
              {"NVIDIA K80 (one GK210 of the two on a board, boost clock)",
               "190 of 240 GB/s, Jia et al., arXiv:1804.06826",
               std::string("0.64 of peak, which is base by boost clock; ") + kLaunchAsMeasured});
}

std::vector<DeviceKind> pascal() {
  const Provenance from{"NVIDIA P100", "530 of 732 GB/s, Jia et al., arXiv:1804.06826",
                        std::string("0.85 of peak, between K80 and V100 and near cuBLAS's float32 on large "
                                    "squares; ") +
                            kLaunchAsMeasured};
  return {kind("P100-SXM2", {{Float32, tera(10.6)}, {Float16, tera(21.2)}, {Float64, tera(5.3)}}, 0.85,
               {16, 732, 0.72}, from),
          kind("P100-PCIe", {{Float32, tera(9.3)}, {Float16, tera(18.7)}, {Float64, tera(4.7)}}, 0.85,
               {16, 732, 0.72}, from)};
}

std::vector<DeviceKind> volta() {
  const Peaks sxm{{Float32, tera(15.7)}, {Float16, tera(125)}, {Float64, tera(7.8)}};
  const Peaks pcie{{Float32, tera(14)}, {Float16, tera(112)}, {Float64, tera(7)}};
  const std::string memory = "750 to 830 of 900 GB/s, Jia et al., arXiv:1804.06826";
  const Provenance from_sxm{"NVIDIA V100", memory,
                            std::string("0.8 of peak, as float16 GEMM of 95 to 105 TFLOP/s is commonly "
                                        "reported; ") +
                                kLaunchAsMeasured};
  const Provenance from_pcie{"NVIDIA V100", memory,
                             std::string("0.76 of peak, as float16 GEMM of 85 TFLOP/s is commonly "
                                         "reported; ") +
                                 kLaunchAsMeasured};
  const auto with_nvlink = [](DeviceKind made) {
    return with_collectives(std::move(made), {Seconds(6.6 / 1e6)}, "NCCL's own model, src/graph/tuning.cc");
  };
  return {with_nvlink(kind("V100-SXM2-16GB", sxm, 0.8, {16, 900, 0.88}, from_sxm)),
          with_nvlink(kind("V100-SXM2-32GB", sxm, 0.8, {32, 900, 0.88}, from_sxm)),
          kind("V100-PCIe", pcie, 0.76, {16, 900, 0.88}, from_pcie)};
}

std::vector<DeviceKind> ampere() {
  const Peaks peak{{Float32, tera(19.5)},
                   {TensorFloat32, tera(156)},
                   {Float16, tera(312)},
                   {BFloat16, tera(312)},
                   {Float64, tera(19.5)}};
  const std::string sheet = "NVIDIA A100 (float64 on tensor cores)";
  const std::string fitted = "0.817 of peak and launch overhead, fitted to GEMMs of ai-dynamo/aiconfigurator";
  const auto ampere_kind = [](DeviceKind made, std::int64_t memory) {
    return with_ampere_collectives(
        with_sustained(with_flash_attention_2(with_frameworks(std::move(made), memory)), kSustainedAmpere));
  };
  return {ampere_kind(kind("A100-40GB", peak, 0.817, {40, 1555, 0.84},
                           {sheet, fitted, "1300 of 1555 GB/s, as commonly reported"}),
                      40960),
          ampere_kind(kind("A100-80GB", peak, 0.817, {80, 2039, 0.8},
                           {sheet, fitted, "1630 of 2039 GB/s, as aiconfigurator's a100_sxm.yaml counts"}),
                      81920)};
}

// An H100 with fewer NVLinks and hardly any float64.
DeviceKind h800(Peaks peak) {
  peak[Float64] = tera(1);
  return kind("H800", std::move(peak), 0.767, {80, 3350, 0.8},
              {"NVIDIA H800 SXM (dense)",
               "0.767 of peak and launch overhead as of the H100, the same chip, fitted to GEMMs of "
               "ai-dynamo/aiconfigurator",
               "0.8 of memory bandwidth, as on H100"});
}

std::vector<DeviceKind> hopper() {
  const Peaks peak{{Float32, tera(67)},   {TensorFloat32, tera(494.5)}, {Float16, tera(989)},
                   {BFloat16, tera(989)}, {Float8, tera(1979)},         {Float64, tera(67)}};
  const auto from = [](const std::string& name, const std::string& limit) {
    return Provenance{name + " (dense; float64 on tensor cores)",
                      limit + " of peak and launch overhead, fitted to GEMMs of ai-dynamo/aiconfigurator",
                      "0.8 of memory bandwidth, as aiconfigurator's h100_sxm.yaml counts"};
  };
  constexpr std::int64_t kOf80 = 81559, kOf96 = 97871, kOf141 = 143771;  // MiB
  const auto hopper_kind = [](DeviceKind made, std::int64_t memory) {
    return with_hopper_collectives(with_sustained(
        with_flash_attention_2_on_hopper(with_flash_attention_3(with_frameworks(std::move(made), memory))),
        kSustainedHopper));
  };
  // Where power limits the clock, it goes with the third root of power, since voltage goes with the clock.
  const double clock = std::cbrt(500.0 / 700);
  DeviceKind limited = hopper_kind(
      kind("H100-500W", peak, 0.767, {96, 2400, 0.8},
           {"NVIDIA H100 (dense; float64 on tensor cores); 96 GB of HBM2e at 2.4 TB/s and 500 W, "
            "pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md",
            "0.767 of peak and launch overhead, fitted to GEMMs of ai-dynamo/aiconfigurator on H100-SXM5",
            "0.8 of memory bandwidth, as on H100-SXM5; sustained products and attention go with "
            "the clock, which is taken for the third root of power, 0.89"}),
      kOf96);
  limited.sustained *= clock;
  for (auto* attention : {&limited.fused_attention, &limited.flash_attention_2}) {
    (*attention)->forward *= clock;
    (*attention)->backward *= clock;
  }
  return {hopper_kind(kind("H100-SXM5", peak, 0.767, {80, 3350, 0.8}, from("NVIDIA H100", "0.767")), kOf80),
          std::move(limited), hopper_kind(h800(peak), kOf80),
          hopper_kind(kind("H200", peak, 0.776, {141, 4800, 0.8}, from("NVIDIA H200", "0.776")), kOf141)};
}

std::vector<DeviceKind> blackwell() {
  const std::string estimated = std::string("0.8 of memory bandwidth as on H200; ") + kLaunchAsMeasured;
  return {with_blackwell_collectives(with_flash_attention_4(with_frameworks(
              kind("B200",
                   {{Float32, tera(80)},
                    {TensorFloat32, tera(1125)},
                    {Float16, tera(2250)},
                    {BFloat16, tera(2250)},
                    {Float8, tera(4500)},
                    {Float64, tera(37)}},
                   0.653, {180, 8000, 0.8},
                   {"NVIDIA HGX B200 (dense)",
                    "0.653 of peak, the median of bfloat16 GEMMs (1470 TFLOP/s) of ai-dynamo/aiconfigurator",
                    estimated}),
              183359))),
          with_blackwell_collectives(with_flash_attention_4(kind(
              "GB200",
              {{Float32, tera(80)},
               {TensorFloat32, tera(1250)},
               {Float16, tera(2500)},
               {BFloat16, tera(2500)},
               {Float8, tera(5000)},
               {Float64, tera(40)}},
              0.614, {186, 8000, 0.8},
              {"NVIDIA GB200 NVL72 (dense; one GPU of the two of a superchip)",
               "a bfloat16 GEMM of 1822 TFLOP/s, the best, stas00/ml-engineering; of B200 the best of 1745 "
               "there, the median of 1470 in ai-dynamo/aiconfigurator",
               "0.614 of peak, as far below the best GEMM as B200's median is; " + estimated})))};
}

std::vector<DeviceKind> all_kinds() {
  std::vector<DeviceKind> kinds{k80()};
  for (const auto& generation : {pascal(), volta(), ampere(), hopper(), blackwell()})
    kinds.insert(kinds.end(), generation.begin(), generation.end());
  return kinds;
}

}  // namespace

std::span<const DeviceKind> built_in_device_kinds() {
  static const std::vector<DeviceKind> kinds = all_kinds();
  return kinds;
}

const DeviceKind* find_built_in_device_kind(std::string_view name) {
  const auto kinds = built_in_device_kinds();
  const auto it =
      std::find_if(kinds.begin(), kinds.end(), [&](const DeviceKind& k) { return k.name == name; });
  return it == kinds.end() ? nullptr : &*it;
}

std::vector<std::string> built_in_device_kind_names() {
  std::vector<std::string> names;
  for (const DeviceKind& kind : built_in_device_kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace pipesim
