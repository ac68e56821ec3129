#pragma once

#include "executor/gpu/bodies/body.h"
#include "executor/gpu/bodies/floats.h"
#include "executor/operators/optimizer.h"

namespace pipesim::gpu {

/// What every optimizer reads and writes of a shard's weights.
struct TrainedElements {
  Floats weights, master, gradient;
  float averaged = 1;  ///< the gradient is divided by it
  [[nodiscard]] PIPESIM_DEVICE float slope(std::int64_t i) const { return gradient[i] / averaged; }
  [[nodiscard]] PIPESIM_DEVICE float value(std::int64_t i) const {
    return master.present() ? master[i] : weights[i];
  }
  PIPESIM_DEVICE void set(std::int64_t i, float value) const {
    if (master.present()) master.set(i, value);
    weights.set(i, value);
  }
};

struct SgdUpdate {
  TrainedElements trained;
  OptimizerSettings settings;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    float weight = trained.value(i);
    step_sgd(settings, trained.slope(i), weight);
    trained.set(i, weight);
  }
};

struct MomentumUpdate {
  TrainedElements trained;
  Floats velocity;
  OptimizerSettings settings;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    float weight = trained.value(i), kept = velocity[i];
    step_momentum(settings, trained.slope(i), weight, kept);
    velocity.set(i, kept);
    trained.set(i, weight);
  }
};

/// A chunk of the weights by a team, so that one thread of it works out the powers for all.
struct AdamUpdate {
  static constexpr std::int64_t chunk = 4096;
  TrainedElements trained;
  Floats first, second;
  OptimizerSettings settings;
  std::int64_t elements = 0;
  const std::int64_t* step = nullptr;  ///< from 0; in it are so many changes, this is one of them, from 0
  std::int64_t changes = 1, change = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t c) const {
    AdamCorrections corrections{0, 0};
    if (team.rank() == 0) corrections = adam_corrections(settings, *step * changes + change + 1);
    corrections = {static_cast<float>(team.sum(static_cast<double>(corrections.first))),
                   static_cast<float>(team.sum(static_cast<double>(corrections.second)))};
    const std::int64_t end = (c + 1) * chunk < elements ? (c + 1) * chunk : elements;
    for (std::int64_t i = c * chunk + team.rank(); i < end; i += team.size()) {
      float weight = trained.value(i), mean = first[i], square = second[i];
      step_adam(settings, corrections, trained.slope(i), weight, mean, square);
      first.set(i, mean);
      second.set(i, square);
      trained.set(i, weight);
    }
  }
};

using OptimizerBodies = BodyList<AdamUpdate, MomentumUpdate, SgdUpdate>;

}  // namespace pipesim::gpu
