#pragma once

#include <cstdint>

namespace pipesim::gpu {

/// Numbers of the running step in device memory: what changes from step to step must not be an argument of
/// work that is recorded once and repeated.
struct DeviceStep {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

}  // namespace pipesim::gpu
