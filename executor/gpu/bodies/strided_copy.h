#pragma once

#include <array>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/floats.h"

namespace pipesim::gpu {

/// to[a, b, c, d] = from[a, b, c, d] (+ to[a, b, c, d]), where elements may lie in any order in memory. There
/// is an index for each, d fastest. Zeros are copied where `from` is not present.
struct StridedCopy {
  using Strides = std::array<std::int64_t, 4>;  ///< elements from one index to the next
  Floats from, to;
  std::array<std::int64_t, 4> lengths{};
  Strides from_strides{}, to_strides{};
  bool add = false;

  [[nodiscard]] constexpr std::int64_t elements() const {
    return lengths[0] * lengths[1] * lengths[2] * lengths[3];
  }
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    std::int64_t source = 0, target = 0;
    for (int dim = 3; dim > 0; --dim) {
      const std::int64_t rest = i / lengths[dim], index = i - rest * lengths[dim];
      source += index * from_strides[dim];
      target += index * to_strides[dim];
      i = rest;
    }
    source += i * from_strides[0];
    target += i * to_strides[0];
    float value = from.present() ? from[source] : 0.0F;
    if (add) value += to[target];
    to.set(target, value);
  }
};

using StridedCopyBodies = BodyList<StridedCopy>;

}  // namespace pipesim::gpu
