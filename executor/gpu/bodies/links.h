#pragma once

#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/clock.h"

namespace pipesim::gpu {

/// A lane of a link, and for how many nanoseconds a transfer keeps it.
struct LinkHold {
  std::int64_t lane = 0, nanoseconds = 0;
};

/// Lanes of links in device memory.
struct LinkTimes {
  std::int64_t* free_at = nullptr;  ///< by lane, by nanoseconds(): from when on nobody has taken it
  std::uint32_t* taken = nullptr;   ///< see DeviceLock: lanes of a transfer are taken all at once
};

/// Takes lanes for a transfer that is ready now, as simulate() does: it starts when all of them are free,
/// keeps each for as long as its bytes take there, and ends `duration` after its start. Index 0 only.
struct TakeLinks {
  LinkTimes links;
  const LinkHold* holds = nullptr;
  std::int64_t num_holds = 0, duration = 0;
  std::int64_t* end = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t /*i*/) const {
    const DeviceLock lock(links.taken);
    volatile std::int64_t* free_at = links.free_at;  // others write it: not to be kept in a cache
    std::int64_t start = nanoseconds();
    for (std::int64_t h = 0; h < num_holds; ++h) {
      const std::int64_t free = free_at[holds[h].lane];
      if (free > start) start = free;
    }
    for (std::int64_t h = 0; h < num_holds; ++h) free_at[holds[h].lane] = start + holds[h].nanoseconds;
    *end = start + duration;
  }
};

/// Ends when the clock has reached `*time`, and waits for nothing else. Index 0 only.
struct WaitUntil {
  const std::int64_t* time = nullptr;
  PIPESIM_DEVICE void operator()(std::int64_t /*i*/) const { wait_until(*time); }
};

using LinkBodies = BodyList<TakeLinks, WaitUntil>;

}  // namespace pipesim::gpu
