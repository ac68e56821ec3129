#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

PipelineSchedule build_inference(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t stage) {
    std::vector<PipelineStep> steps;
    for (std::int32_t m = 0; m < shape.microbatches; ++m) steps.push_back({StepKind::Forward, m, stage});
    return steps;
  });
}

}  // namespace

ScheduleKind inference_schedule() {
  return {"inference", "forward only", "", false, suits_every_shape, build_inference};
}

}  // namespace pipesim
