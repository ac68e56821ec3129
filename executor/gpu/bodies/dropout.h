#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/gpu/device_step.h"
#include "executor/operators/dropout_mask.h"

namespace pipesim::gpu {

/// y = x where the mask keeps it; of gradients, too. Index i stands for elements i, i + apart, i + 2 · apart,
/// … below `elements`: the step's key is worth several of them.
struct Dropout {
  static constexpr std::int64_t kEach = 4;

  Floats x, y;
  NumbersInBatch numbers;
  DropoutRate rate;
  const DeviceStep* step;
  std::int64_t elements, apart;

  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const DropoutMask masked(rate, step->seed, step->step);
    for (std::int64_t at = i; at < elements; at += apart) y.set(at, masked(numbers(at), x[at]));
  }
};

using DropoutBodies = BodyList<Dropout>;

}  // namespace pipesim::gpu
