#include "topologies/device_kinds.h"

#include <algorithm>
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

// `limit`: the fraction of peak that large, well-shaped kernels reach. The curve is flat: smaller ones are
// slower by their fixed time alone.
DeviceKind kind(std::string name, Peaks peak, double limit, Memory memory, std::string source) {
  DeviceKind kind;
  kind.name = std::move(name);
  kind.efficiency = {{Flops(1), limit}};
  kind.peak = std::move(peak);
  kind.memory = Bytes(static_cast<std::int64_t>(memory.gigabytes * 1e9));
  kind.memory_bandwidth = BytesPerSecond(memory.gigabytes_per_second * 1e9);
  kind.memory_efficiency = memory.efficiency;
  kind.launch_overhead = Seconds(2.7e-6);
  kind.source = std::move(source);
  return kind;
}

using enum DataType;

// Boost clock. Kepler GEMM reaches about what the base clock would give: 2.8 of 4.37 TFLOP/s.
DeviceKind k80() {
  return kind(
      "K80", {{Float32, tera(4.37)}, {Float64, tera(1.45)}}, 0.64, {12, 240, 0.79},
      "one GK210 of the two on a board: NVIDIA K80 datasheet (boost clock); limit = base / boost clock; "
      "190 of 240 GB/s: Jia et al., arXiv:1804.06826");
}

std::vector<DeviceKind> pascal() {
  const std::string source =
      "NVIDIA P100 datasheet; 530 of 732 GB/s: Jia et al., arXiv:1804.06826; GEMM limit estimated, between "
      "K80's "
      "and V100's figures and that of cuBLAS float32 on large squares";
  return {kind("P100-SXM2", {{Float32, tera(10.6)}, {Float16, tera(21.2)}, {Float64, tera(5.3)}}, 0.85,
               {16, 732, 0.72}, source),
          kind("P100-PCIe", {{Float32, tera(9.3)}, {Float16, tera(18.7)}, {Float64, tera(4.7)}}, 0.85,
               {16, 732, 0.72}, source)};
}

std::vector<DeviceKind> volta() {
  const Peaks sxm{{Float32, tera(15.7)}, {Float16, tera(125)}, {Float64, tera(7.8)}};
  const Peaks pcie{{Float32, tera(14)}, {Float16, tera(112)}, {Float64, tera(7)}};
  const std::string source =
      "NVIDIA V100 datasheet; 750-830 of 900 GB/s: Jia et al., arXiv:1804.06826; float16 GEMM of 95-105 "
      "(SXM2) and "
      "85 TFLOP/s (PCIe) as commonly reported";
  return {kind("V100-SXM2-16GB", sxm, 0.8, {16, 900, 0.88}, source),
          kind("V100-SXM2-32GB", sxm, 0.8, {32, 900, 0.88}, source),
          kind("V100-PCIe", pcie, 0.76, {16, 900, 0.88}, source)};
}

std::vector<DeviceKind> ampere() {
  const Peaks peak{{Float32, tera(19.5)},
                   {TensorFloat32, tera(156)},
                   {Float16, tera(312)},
                   {BFloat16, tera(312)},
                   {Float64, tera(19.5)}};
  const std::string source =
      "NVIDIA A100 datasheet (float64 on tensor cores); GEMM limit fitted to ai-dynamo/aiconfigurator "
      "measurements; ";
  return {kind("A100-40GB", peak, 0.817, {40, 1555, 0.84}, source + "1300 of 1555 GB/s as commonly reported"),
          kind("A100-80GB", peak, 0.817, {80, 2039, 0.8},
               source + "1630 of 2039 GB/s: aiconfigurator a100_sxm.yaml")};
}

std::vector<DeviceKind> hopper() {
  const Peaks peak{{Float32, tera(67)},
                   {TensorFloat32, tera(494.5)},
                   {Float16, tera(989)},
                   {BFloat16, tera(989)},
                   {Float64, tera(67)}};
  const std::string source =
      "NVIDIA H100 and H200 datasheets (dense; float64 on tensor cores); GEMM limit fitted to "
      "ai-dynamo/aiconfigurator "
      "measurements; 0.8 of memory bandwidth: aiconfigurator h100_sxm.yaml";
  return {kind("H100-SXM5", peak, 0.767, {80, 3350, 0.8}, source),
          kind("H200", peak, 0.776, {141, 4800, 0.8}, source)};
}

DeviceKind blackwell() {
  return kind("B200",
              {{Float32, tera(80)},
               {TensorFloat32, tera(1125)},
               {Float16, tera(2250)},
               {BFloat16, tera(2250)},
               {Float64, tera(37)}},
              0.653, {180, 8000, 0.8},
              "NVIDIA HGX B200 datasheet (dense); bfloat16 GEMM median 1470 TFLOP/s: "
              "ai-dynamo/aiconfigurator; memory "
              "efficiency assumed as on H200");
}

std::vector<DeviceKind> all_kinds() {
  std::vector<DeviceKind> kinds{k80()};
  for (const auto& generation : {pascal(), volta(), ampere(), hopper()})
    kinds.insert(kinds.end(), generation.begin(), generation.end());
  kinds.push_back(blackwell());
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
