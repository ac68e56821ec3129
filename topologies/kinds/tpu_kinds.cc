#include <utility>

#include "topologies/kinds/kind_parts.h"

namespace pipesim::kinds {
namespace {

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

std::vector<DeviceKind> tpu_kinds() {
  return {tpu_kind("TPU-v5e", "Cloud TPU v5e, docs.cloud.google.com/tpu/docs/v5e", 197, {16, 819, 0.85}),
          tpu_kind("TPU-v5p", "Cloud TPU v5p, docs.cloud.google.com/tpu/docs/v5p", 459, {95, 2765, 0.85}),
          tpu_kind("TPU-v6e", "Cloud TPU v6e, docs.cloud.google.com/tpu/docs/v6e", 918, {32, 1640, 0.85})};
}

}  // namespace pipesim::kinds
