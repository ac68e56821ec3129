#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
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

/// Why the second iteration is shorter, in one clause: "because devices idle 5.1 s less (9.1 % of the
/// iteration instead of 16.0 %) and 3 s less of tensor communication is exposed, although 0.4 s more is
/// computed again". Parts with less than a tenth of the difference are left out. "" where the second is not
/// shorter.
std::string because(const IterationParts& before, const IterationParts& after);

/// A JSON object with a member for each part.
nlohmann::ordered_json json_of(const IterationParts& parts);

}  // namespace pipesim
