#pragma once

#include "sim/base/rng.h"
#include "taskgraph/plan/state_sharding.h"

namespace pipesim {

/// Any kind, none included, with any of its settings.
inline StateSharding random_state_sharding(Rng& rng) {
  StateSharding sharding;
  sharding.kind = static_cast<StateSharding::Kind>(rng.below(4));
  if (sharding.any() && rng.below(3) == 0) sharding.group = static_cast<std::int32_t>(1 + rng.below(4));
  if (!sharding.any()) return sharding;
  Rng apart = rng.split(1);  // seeds keep what else is drawn from them
  sharding.wide_gathers = apart.below(3) == 0;
  if (!sharding.gathers_to_use()) {
    sharding.overlaps_gather = apart.below(2) == 0;
    if (sharding.overlaps_gather) sharding.prefetch = static_cast<std::int32_t>(apart.below(3));
    return sharding;
  }
  using enum StateSharding::Reshard;
  sharding.reshard = rng.below(3) == 0 ? (apart.split(1).below(2) == 0 ? Last : Never) : Always;
  sharding.prefetch = static_cast<std::int32_t>(rng.below(3));
  sharding.wide_weights = apart.below(2) == 0;
  sharding.whole_gradients = sharding.reshard != Last && apart.below(3) == 0;
  return sharding;
}

}  // namespace pipesim
