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
  sharding.wide_gathers = rng.below(3) == 0;
  if (sharding.gathers_to_use()) {
    sharding.keep_gathered = rng.below(3) == 0;
    sharding.wide_weights = rng.below(2) == 0;
  } else {
    sharding.gathers_in_forward = rng.below(2) == 0;
  }
  if (sharding.gathers_before_use()) sharding.prefetch = static_cast<std::int32_t>(rng.below(3));
  return sharding;
}

}  // namespace pipesim
