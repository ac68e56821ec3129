#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// Only a single device has several stages: then it takes microbatches one after the other.
PipelineSchedule build_inference(const PipelineShape& shape) {
  return schedule_of_replicas(shape, [&](std::int32_t device, std::int32_t replica, std::int32_t replicas) {
    std::vector<PipelineStep> steps;
    for (std::int32_t m = replica; m < shape.microbatches; m += replicas) {
      for (std::int32_t stage = device; stage < device + shape.chunks; ++stage)
        steps.push_back({StepKind::Forward, m, stage});
    }
    return steps;
  });
}

}  // namespace

ScheduleKind inference_schedule() {
  ScheduleKind kind{"inference", "forward only", "", false, suits_every_shape, build_inference};
  kind.weights = WeightChange::Never;
  kind.takes_replicas = true;
  return kind;
}

}  // namespace pipesim
