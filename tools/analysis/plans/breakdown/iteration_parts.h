#pragma once

#include <vector>

#include "tools/analysis/plans/breakdown/exposed_communication.h"

namespace pipesim {

/// Where the time of an iteration goes, as a device sees it: the mean over the devices that compute anything,
/// in seconds. The parts add up to the iteration.
struct IterationParts {
  double iteration = 0;
  double compute = 0;         ///< passes and updates, without what is computed again
  double recompute = 0;       ///< forward passes that run once more
  ByCause<double> exposed{};  ///< communication beside which the device computes nothing
  double idle = 0;            ///< the rest: bubbles of a pipeline, waiting for other devices and for links
};

/// `iteration`: nanoseconds; the others by device.
IterationParts iteration_parts(Nanoseconds iteration, const std::vector<Nanoseconds>& compute,
                               const std::vector<Nanoseconds>& recompute,
                               const std::vector<CommunicationTime>& communication);

}  // namespace pipesim
