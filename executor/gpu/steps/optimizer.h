#pragma once

#include <cstdint>

#include "costmodel/cost_model.h"
#include "executor/gpu/machine/stream.h"
#include "executor/operators/optimizer.h"

namespace pipesim::gpu {

/// A shard's weights and what is kept with them, `elements` each.
struct TrainedWeights {
  Floats weights;        ///< as operators read them
  Floats master;         ///< where present the weights are a rounded copy of it, made anew
  Floats gradient;       ///< only read
  Floats first, second;  ///< moments: momentum and Lion have the first, Adam both
  std::int64_t elements = 0;
};

/// Which change of the weights this is, for Adam: number step · changes + change + 1.
struct WeightChange {
  const std::int64_t* step = nullptr;  ///< in device memory, from 0
  std::int64_t changes = 1;            ///< in each step
  std::int64_t change = 0;             ///< this one of them, from 0
};

/// One step of the optimizer, as cpu::update(), along the gradient divided by `averaged`.
void update(Stream& stream, const Optimizer& optimizer, const OptimizerSettings& settings,
            const TrainedWeights& trained, std::int64_t averaged, const WeightChange& change);

}  // namespace pipesim::gpu
