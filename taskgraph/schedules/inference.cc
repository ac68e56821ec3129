#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// Only a single device has several stages: then it takes microbatches one after the other.
PipelineSchedule build_inference(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t device) {
    std::vector<PipelineStep> steps;
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      for (std::int32_t stage = device; stage < device + shape.chunks; ++stage)
        steps.push_back({StepKind::Forward, m, stage});
    }
    return steps;
  });
}

}  // namespace

ScheduleKind inference_schedule() {
  return {"inference",       "forward only",  "",    false,
          suits_every_shape, build_inference, false, WeightChange::Never};
}

}  // namespace pipesim
