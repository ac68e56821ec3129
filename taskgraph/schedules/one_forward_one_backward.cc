#include <algorithm>
#include <numeric>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {

std::int32_t warm_up(std::span<const std::int32_t> replicas, std::int32_t stage) {
  const std::span from_it_on = replicas.subspan(static_cast<std::size_t>(stage));
  return (std::reduce(from_it_on.begin(), from_it_on.end()) - 1) / from_it_on.front();
}

// A stage begins backward as soon as it can, so that it never holds more microbatches than there are stages
// from it on. Of several replicas each does so with those that it takes.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape) {
  std::vector<std::int32_t> all;
  for (std::int32_t device = 0; device < shape.devices; ++device) all.push_back(shape.replicas_of(device));
  return schedule_of_replicas(shape, [&](std::int32_t stage, std::int32_t replica, std::int32_t replicas) {
    std::vector<PipelineStep> steps;
    const auto step = [&](StepKind kind, std::int32_t number) {
      steps.push_back({kind, number * replicas + replica, stage});
    };
    const std::int32_t own = (shape.microbatches - replica + replicas - 1) / replicas;
    const std::int32_t ahead = std::min(warm_up(all, stage), own);
    for (std::int32_t n = 0; n < ahead; ++n) step(StepKind::Forward, n);
    for (std::int32_t n = 0; n < own; ++n) {
      if (n + ahead < own) step(StepKind::Forward, n + ahead);
      step(StepKind::Backward, n);
    }
    return steps;
  });
}

ScheduleKind one_forward_one_backward_schedule() {
  return {"1f1b",
          "one forward, one backward in turn",
          "Fan et al. (DAPPLE), PPoPP 2021; Narayanan et al., SOSP 2019",
          false,
          suits_every_shape,
          one_forward_one_backward};
}

}  // namespace pipesim
