#include <algorithm>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {

// A stage begins backward as soon as it can, so that it never holds more microbatches than there are stages
// from it on.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t stage) {
    std::vector<PipelineStep> steps;
    const std::int32_t ahead = std::min(shape.devices - stage - 1, shape.microbatches);
    for (std::int32_t m = 0; m < ahead; ++m) steps.push_back({StepKind::Forward, m, stage});
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      if (m + ahead < shape.microbatches) steps.push_back({StepKind::Forward, m + ahead, stage});
      steps.push_back({StepKind::Backward, m, stage});
    }
    return steps;
  });
}

ScheduleKind one_forward_one_backward_schedule() {
  return {"1f1b",
          "one forward, one backward: early backward",
          "Fan et al. (DAPPLE), PPoPP 2021; Narayanan et al., SOSP 2019",
          false,
          suits_every_shape,
          one_forward_one_backward};
}

}  // namespace pipesim
