#pragma once

#include <cstddef>

namespace pipesim {

/// How much the times of equal work differ on this host.
struct HostNoise {
  double spread =
      0;  ///< of a loop of about 1 ms: (95 % quantile − 5 % quantile) / median, on the noisiest core
  bool realtime = false;  ///< the threads ran under SCHED_FIFO
};

/// Times a loop of about 1 ms again and again on each of the first `cores` cores, `seconds` in all; under
/// SCHED_FIFO, if wanted and permitted, as devices run then.
HostNoise measure_noise(std::size_t cores, double seconds, bool real_time);

}  // namespace pipesim
