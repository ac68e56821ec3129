#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// The steps of all groups of a pipeline in one list, in which each stands behind those that it waits for:
/// those before it on its group, and the one that hands it its input or its gradient. Steps beside each other
/// stand together, behind all that either of them waits for.
struct StepSequence {
  struct Step {
    PipelineStep what;
    std::int32_t group = 0;
    bool leads_pair = false;  ///< the group's next step is beside it
  };
  std::vector<Step> steps;
  std::int32_t groups = 0, stages = 0, microbatches = 0;
  bool both_ways = false;  ///< as ScheduleKind::both_ways
};

/// Keeps the sequences that were made last.
class StepSequences {
 public:
  /// `schedule`: suits the shape. `chunks`: stages on each group. Valid until the next call.
  const StepSequence& of(const std::string& schedule, std::int64_t groups, std::int64_t microbatches,
                         std::int64_t chunks);

 private:
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>, StepSequence> made_;
  std::size_t steps_ = 0;  // in all of these
};

}  // namespace pipesim
