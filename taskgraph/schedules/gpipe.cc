#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

PipelineSchedule build_gpipe(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t stage) {
    std::vector<PipelineStep> steps;
    for (std::int32_t m = 0; m < shape.microbatches; ++m) steps.push_back({StepKind::Forward, m, stage});
    for (std::int32_t m = shape.microbatches; m-- > 0;) steps.push_back({StepKind::Backward, m, stage});
    return steps;
  });
}

}  // namespace

ScheduleKind gpipe_schedule() {
  ScheduleKind kind{
      "gpipe",    "all forward, then all backward", "Huang et al., NeurIPS 2019", false, suits_every_shape,
      build_gpipe};
  kind.holds_all = true;
  return kind;
}

}  // namespace pipesim
