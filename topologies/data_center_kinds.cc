#include <fmt/format.h>

#include <utility>

#include "topologies/kind_parts.h"

namespace pipesim::kinds {
namespace {

using enum DataType;

// Blocks of DeepSeek's form are multiplied as OCP's on Blackwell.
std::map<DataType, NarrowShares> eight_bits(const NarrowShares& tensor, const NarrowShares& blocks) {
  return {{Float8, tensor}, {Float8Block, blocks}, {MxFloat8, blocks}};
}

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
  return {
      ampere_kind(kind("A100-40GB", peak, 0.817, {40, 1555, 0.84},
                       {sheet, fitted, "1300 of 1555 GB/s, as commonly reported"}),
                  40960),
      ampere_kind(kind("A100-80GB", peak, 0.817, {80, 2039, 0.8},
                       {sheet, fitted, "1630 of 2039 GB/s, as aiconfigurator's a100_sxm.yaml counts"}),
                  81920),
      ampere_kind(kind("A800", peak, 0.817, {80, 2039, 0.8},
                       {"NVIDIA A800 80GB SXM (an A100 with 8 of 12 NVLinks; float64 on tensor cores)",
                        "0.817 of peak and launch overhead as of the A100, the same chip, fitted to GEMMs "
                        "of ai-dynamo/aiconfigurator",
                        "1630 of 2039 GB/s, as on A100"}),
                  81920)};
}

// Rates of H100 and H200 in eight bits by FLOPs, per tensor and by blocks.
const std::map<DataType, NarrowShares> kHopperProducts{{Float8, {0.31, 0.45, 0.59, 0.62, 0.68, 0.69}},
                                                       {Float8Block, {0.34, 0.45, 0.57, 0.63, 0.64, 0.63}}};

DeviceKind hopper_part(DeviceKind made, const std::map<DataType, NarrowShares>& narrow) {
  return with_hopper_collectives(with_narrow_products(
      with_sustained(with_flash_attention_2_on_hopper(with_hopper_attention(std::move(made))),
                     kSustainedHopper),
      narrow, kSustainedNarrow));
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
                   {BFloat16, tera(989)}, {Float8, tera(1979)},         {Float8Block, tera(1979)},
                   {Float64, tera(67)}};
  const auto from = [](const std::string& name, const std::string& limit) {
    return Provenance{name + " (dense; float64 on tensor cores)",
                      limit + " of peak and launch overhead, fitted to GEMMs of ai-dynamo/aiconfigurator",
                      "0.8 of memory bandwidth, as aiconfigurator's h100_sxm.yaml counts"};
  };
  constexpr std::int64_t kOf80 = 81559, kOf96 = 97871, kOf141 = 143771;  // MiB
  const auto hopper_kind = [](DeviceKind made, std::int64_t memory) {
    return hopper_part(with_frameworks(std::move(made), memory), kHopperProducts);
  };
  DeviceKind limited = hopper_kind(
      kind("H100-500W", peak, 0.767, {96, 2400, 0.8},
           {"NVIDIA H100 (dense; float64 on tensor cores); 96 GB of HBM2e at 2.4 TB/s and 500 W, "
            "pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md",
            "0.767 of peak and launch overhead, fitted to GEMMs of ai-dynamo/aiconfigurator on H100-SXM5",
            "0.8 of memory bandwidth, as on H100-SXM5; sustained products and attention go with "
            "the clock, which is taken for the third root of power, 0.89"}),
      kOf96);
  return {hopper_kind(kind("H100-SXM5", peak, 0.767, {80, 3350, 0.8}, from("NVIDIA H100", "0.767")), kOf80),
          at_power(std::move(limited), 500, 700), hopper_kind(h800(peak), kOf80),
          hopper_kind(kind("H200", peak, 0.776, {141, 4800, 0.8}, from("NVIDIA H200", "0.776")), kOf141)};
}

// Hopper in other packages. Rates are the datasheets' at 1.755 GHz and fewer multiprocessors; where less than
// 700 W are allowed, sustained products and attention go with the clock that the power leaves.
std::vector<DeviceKind> hopper_cards() {
  const std::string measured =
      "0.767 of peak and launch overhead as of the H100-SXM5, the same chip, fitted to GEMMs of "
      "ai-dynamo/aiconfigurator";
  const auto made = [](DeviceKind card, std::int64_t memory, double watts) {
    return at_power(hopper_part(with_frameworks(std::move(card), memory), kHopperProducts), watts, 700);
  };
  DeviceKind pcie =
      kind("H100-PCIe",
           {{Float32, tera(51)},
            {TensorFloat32, tera(378)},
            {Float16, tera(756)},
            {BFloat16, tera(756)},
            {Float8, tera(1513)},
            {Float8Block, tera(1513)},
            {Float64, tera(51)}},
           0.767, {80, 2000, 0.8},
           {"NVIDIA H100 PCIe (dense; float64 on tensor cores; 350 W)", measured,
            "0.8 of memory bandwidth, as on H100-SXM5; sustained products and attention go with the "
            "clock, the third root of power, 0.79"});
  DeviceKind nvl =
      kind("H100-NVL",
           {{Float32, tera(60)},
            {TensorFloat32, tera(417.5)},
            {Float16, tera(835)},
            {BFloat16, tera(835)},
            {Float8, tera(1671)},
            {Float8Block, tera(1671)},
            {Float64, tera(60)}},
           0.767, {94, 3900, 0.8},
           {"NVIDIA H100 NVL (one card of a pair; dense; float64 on tensor cores; 400 W)", measured,
            "0.8 of memory bandwidth, as on H100-SXM5; sustained products and attention go with the "
            "clock, the third root of power, 0.83"});
  // An H100 whose products are slowed down; all its NVLinks and all its memory's bandwidth are there.
  DeviceKind h20 =
      kind("H20",
           {{Float32, tera(44)},
            {TensorFloat32, tera(74)},
            {Float16, tera(148)},
            {BFloat16, tera(148)},
            {Float8, tera(296)},
            {Float8Block, tera(296)},
            {Float64, tera(1)}},
           0.9, {96, 4000, 0.8},
           {"NVIDIA H20 SXM (dense)", kNothingMeasured,
            std::string("0.9 of peak, since power does not limit products at a sixth of the H100's "
                        "rate; 0.8 of memory bandwidth, as on H100; ") +
                kLaunchAsMeasured});
  return {made(std::move(pcie), 81559, 350), made(std::move(nvl), 95830, 400),
          with_hopper_collectives(with_frameworks(std::move(h20), 97871))};
}

// What a run of hours sustains in 16 bits: of 432 products that SimuMax launched without a pause on B200,
// those of at least 1 TFLOP reached 0.49 of the peak (median), where short runs reach 0.69.
constexpr double kSustainedBlackwell = 0.71;
constexpr const char* kSustainedFrom =
    "products on B200 in MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json";

Peaks blackwell_peaks(double float32, double bfloat16, double float4, double float64) {
  return {{Float32, tera(float32)},       {TensorFloat32, tera(bfloat16 / 2)},
          {Float16, tera(bfloat16)},      {BFloat16, tera(bfloat16)},
          {Float8, tera(2 * bfloat16)},   {Float8Block, tera(2 * bfloat16)},
          {MxFloat8, tera(2 * bfloat16)}, {NvFloat4, tera(float4)},
          {Float64, tera(float64)}};
}

// In what the kinds of one architecture differ.
struct Blackwell {
  const char* name;
  double float32, bfloat16, float4, float64;  // peak rates, TFLOP/s
  double limit;
  double gigabytes;
  const char* sheet;
  FusedAttention attention;
  const char* attention_from;
  NarrowShares tensor, blocks, four;
  std::int64_t mebibytes;  // that nvidia-smi reports; 0: nobody said
};

DeviceKind blackwell_kind(const Blackwell& b) {
  DeviceKind made = kind(
      b.name, blackwell_peaks(b.float32, b.bfloat16, b.float4, b.float64), b.limit, {b.gigabytes, 8000, 0.8},
      {b.sheet,
       fmt::format("{:g} of peak, the median of bfloat16 GEMMs of 0.1 to 1 TFLOP of ai-dynamo/aiconfigurator",
                   b.limit),
       std::string("0.8 of memory bandwidth as on H200; ") + kLaunchAsMeasured});
  if (b.mebibytes > 0) made = with_frameworks(std::move(made), b.mebibytes);
  std::map<DataType, NarrowShares> narrow = eight_bits(b.tensor, b.blocks);
  narrow[NvFloat4] = b.four;
  return with_blackwell_collectives(with_narrow_products(
      with_sustained(with_measured_attention(std::move(made), b.attention, b.attention_from),
                     kSustainedBlackwell, kSustainedFrom),
      narrow, kSustainedNarrow));
}

// Blackwell Ultra (B300, GB300) has more memory and faster products in four bits, and hardly any float64.
// Where cuDNN was not measured, attention goes with the clock, the third root of power.
std::vector<DeviceKind> blackwell() {
  return {blackwell_kind({"B200",
                          80,
                          2250,
                          9000,
                          37,
                          0.69,
                          180,
                          "NVIDIA HGX B200 (dense)",
                          {0.73, 0.575, 400, 35000},
                          "at 1000 W by those at 1200 W on GB200",
                          {0.24, 0.31, 0.46, 0.5, 0.55, 0.61},
                          {0.24, 0.38, 0.54, 0.61, 0.65, 0.61},
                          {0.16, 0.25, 0.37, 0.44, 0.49, 0.41},
                          183359}),
          blackwell_kind({"GB200",
                          80,
                          2500,
                          10000,
                          40,
                          0.69,
                          186,
                          "NVIDIA GB200 NVL72 (dense; one GPU of the two of a superchip)",
                          {0.7, 0.55, 400, 35000},
                          "measured",
                          {0.21, 0.3, 0.44, 0.5, 0.54, 0.58},
                          {0.25, 0.36, 0.51, 0.57, 0.62, 0.63},
                          {0.16, 0.24, 0.34, 0.4, 0.48, 0.42},
                          0}),
          blackwell_kind({"B300",
                          75,
                          2250,
                          15000,
                          1.2,
                          0.76,
                          288,
                          "NVIDIA HGX B300 (dense)",
                          {0.84, 0.615, 400, 35000},
                          "at 1100 W by those at 1400 W on GB300",
                          {0.17, 0.26, 0.4, 0.53, 0.59, 0.63},
                          {0.26, 0.41, 0.58, 0.63, 0.67, 0.66},
                          {0.1, 0.16, 0.22, 0.27, 0.32, 0.3},
                          275040}),
          blackwell_kind({"GB300",
                          80,
                          2500,
                          15000,
                          1.3,
                          0.76,
                          279,
                          "NVIDIA GB300 NVL72 (dense; one GPU of the two of a superchip)",
                          {0.82, 0.6, 400, 35000},
                          "measured",
                          {0.23, 0.33, 0.47, 0.54, 0.6, 0.66},
                          {0.25, 0.38, 0.58, 0.63, 0.7, 0.7},
                          {0.11, 0.16, 0.24, 0.3, 0.34, 0.32},
                          0})};
}

}  // namespace

std::vector<DeviceKind> data_center_kinds() {
  std::vector<DeviceKind> kinds{k80()};
  for (const auto& generation : {pascal(), volta(), ampere(), hopper(), hopper_cards(), blackwell()})
    kinds.insert(kinds.end(), generation.begin(), generation.end());
  return kinds;
}

}  // namespace pipesim::kinds
