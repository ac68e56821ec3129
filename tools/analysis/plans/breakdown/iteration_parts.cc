#include "tools/analysis/plans/breakdown/iteration_parts.h"

#include <algorithm>

#include "sim/base/units.h"

namespace pipesim {
IterationParts iteration_parts(Nanoseconds iteration, const std::vector<Nanoseconds>& compute,
                               const std::vector<Nanoseconds>& recompute,
                               const std::vector<CommunicationTime>& communication) {
  IterationParts parts;
  parts.iteration = to_seconds(iteration).value;
  double devices = 0, all = 0;
  for (std::size_t d = 0; d < compute.size(); ++d) {
    if (compute[d] == 0) continue;
    ++devices;
    all += to_seconds(compute[d]).value;
    if (d < recompute.size()) parts.recompute += to_seconds(recompute[d]).value;
  }
  if (devices == 0) {
    parts.idle = parts.iteration;
    return parts;
  }
  parts.recompute /= devices;
  parts.compute = all / devices - parts.recompute;
  const CommunicationSummary summary = summary_of(communication, compute);
  parts.exposed = summary.exposed;
  parts.idle = std::max(0.0, parts.iteration - all / devices - summary.all_exposed);  // but for rounding
  return parts;
}

}  // namespace pipesim
