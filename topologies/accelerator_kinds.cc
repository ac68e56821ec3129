#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "topologies/kind_parts.h"

namespace pipesim::kinds {
namespace {

// Peaks are those of the matrix cores, dense. What is not native is 0.
struct Instinct {
  std::string_view name, sheet;
  double float32, float16, bfloat16, float64, tf32, float8;  // TFLOP/s
  double gigabytes, gigabytes_per_second;
  double limit;
  std::string_view measured;  // the best bfloat16 GEMM in TFLOP/s; "": nobody's is known
  std::string_view estimated;
};

// The best GEMMs of stas00/ml-engineering are the best of many shapes. On A100 and H100 the fitted limit is
// 0.95 of that best; so it is taken here.
constexpr std::string_view kBelowBest = "0.95 of the best GEMM, as on A100 and H100";
constexpr std::string_view kLikeCdna2 = "between MI300X's and A100's", kLikeMi300x = "as on MI300X";

constexpr std::array<Instinct, 10> kInstincts{
    {{"MI60", "AMD Radeon Instinct MI60 (no matrix cores)", 14.7, 29.5, 0, 7.4, 0, 0, 32, 1024, 0.85, "",
      "as on P100"},
     {"MI100", "AMD Instinct MI100", 46.1, 184.6, 92.3, 11.5, 0, 0, 32, 1228.8, 0.7, "", kLikeCdna2},
     {"MI210", "AMD Instinct MI210", 45.3, 181, 181, 45.3, 0, 0, 64, 1638.4, 0.7, "", kLikeCdna2},
     {"MI250", "AMD Instinct MI250 (one of two dies)", 45.3, 181, 181, 45.3, 0, 0, 64, 1638.4, 0.7, "",
      kLikeCdna2},
     {"MI250X", "AMD Instinct MI250X (one of two dies)", 47.9, 191.5, 191.5, 47.9, 0, 0, 64, 1638.4, 0.7, "",
      kLikeCdna2},
     {"MI300A", "AMD Instinct MI300A", 122.6, 980.6, 980.6, 122.6, 490.3, 1961.2, 128, 5300, 0.49, "",
      kLikeMi300x},
     {"MI300X", "AMD Instinct MI300X", 163.4, 1307.4, 1307.4, 163.4, 653.7, 2614.9, 192, 5300, 0.49, "668",
      kBelowBest},
     {"MI325X", "AMD Instinct MI325X", 163.4, 1307.4, 1307.4, 163.4, 653.7, 2614.9, 256, 6000, 0.57, "785",
      kBelowBest},
     {"MI350X", "AMD Instinct MI350X", 144.2, 2309.6, 2309.6, 72.1, 0, 4613.7, 288, 8000, 0.59, "",
      "as on MI355X"},
     {"MI355X", "AMD Instinct MI355X", 157.3, 2516.6, 2516.6, 78.6, 0, 5033.2, 288, 8000, 0.59, "1565",
      kBelowBest}}};

DeviceKind amd_kind(const Instinct& gpu) {
  using enum DataType;
  Peaks peak{{Float32, tera(gpu.float32)}, {Float16, tera(gpu.float16)}, {Float64, tera(gpu.float64)}};
  if (gpu.bfloat16 > 0) peak[BFloat16] = tera(gpu.bfloat16);
  if (gpu.tf32 > 0) peak[TensorFloat32] = tera(gpu.tf32);
  if (gpu.float8 > 0) peak[Float8] = tera(gpu.float8);
  const std::string measured = gpu.measured.empty() ? kNothingMeasured
                                                    : "a bfloat16 GEMM of " + std::string(gpu.measured) +
                                                          " TFLOP/s, the best, stas00/ml-engineering";
  return kind(std::string(gpu.name), std::move(peak), gpu.limit,
              {gpu.gigabytes, gpu.gigabytes_per_second, 0.8},
              {std::string(gpu.sheet), measured,
               fmt::format("{:g}", gpu.limit) + " of peak, " + std::string(gpu.estimated) +
                   "; 0.8 of memory bandwidth, as on H200; " + kLaunchAsMeasured});
}

// One chip. The matrix units multiply bfloat16; float32 products at JAX's highest precision are six of these.
DeviceKind tpu_kind(std::string name, const std::string& page, double bfloat16, Memory memory) {
  constexpr double kProductsOfFloat32 = 6;
  return kind(
      std::move(name),
      {{DataType::BFloat16, tera(bfloat16)}, {DataType::Float32, tera(bfloat16 / kProductsOfFloat32)}}, 0.85,
      memory,
      {"Google " + page, kNothingMeasured,
       std::string("0.85 of peak; 0.85 of memory bandwidth; float32 as six products of bfloat16, JAX's "
                   "highest precision; ") +
           kLaunchAsMeasured});
}

}  // namespace

std::vector<DeviceKind> amd_kinds() {
  std::vector<DeviceKind> made;
  for (const Instinct& gpu : kInstincts) made.push_back(amd_kind(gpu));
  return made;
}

std::vector<DeviceKind> tpu_kinds() {
  return {tpu_kind("TPU-v5e", "Cloud TPU v5e, docs.cloud.google.com/tpu/docs/v5e", 197, {16, 819, 0.85}),
          tpu_kind("TPU-v5p", "Cloud TPU v5p, docs.cloud.google.com/tpu/docs/v5p", 459, {95, 2765, 0.85}),
          tpu_kind("TPU-v6e", "Cloud TPU v6e, docs.cloud.google.com/tpu/docs/v6e", 918, {32, 1640, 0.85})};
}

}  // namespace pipesim::kinds
