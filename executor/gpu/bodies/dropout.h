#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/device_step.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/dropout_mask.h"

namespace pipesim::gpu {

/// Applies the mask to x, or to its gradient, by groups.
struct Dropout {
  Floats x, y;
  NumbersInBatch numbers;
  DropoutRate rate;
  const DeviceStep* step;
  std::int64_t elements = 0;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const DropoutMask masked(rate, step->seed, step->step);
    const GroupPlace at = group_at(i, elements);
    FloatGroup group = read_group(x, at);
    for (std::int64_t k = 0; k < FloatGroup::size; ++k)
      if (k < at.count) group.values[k] = masked(numbers(at.first + k), group.values[k]);
    write_group(y, at, group);
  }
};

using DropoutBodies = BodyList<Dropout>;

}  // namespace pipesim::gpu
