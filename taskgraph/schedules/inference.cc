#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

PipelineSchedule build_inference(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t device) {
    std::vector<PipelineStep> steps;
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk)
        steps.push_back({StepKind::Forward, m, chunk * shape.devices + device});
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
