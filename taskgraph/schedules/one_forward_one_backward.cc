#include <algorithm>
#include <numeric>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {

std::int32_t warm_up(std::span<const std::int32_t> replicas, std::int32_t stage) {
  const std::span from_it_on = replicas.subspan(static_cast<std::size_t>(stage));
  return (std::reduce(from_it_on.begin(), from_it_on.end()) - 1) / from_it_on.front();
}

namespace {

// `ahead_of`: by stage, the microbatches that a replica takes forward before forward and backward alternate.
PipelineSchedule in_turn(const PipelineShape& shape, const std::vector<std::int32_t>& ahead_of) {
  return schedule_of_replicas(shape, [&](std::int32_t stage, std::int32_t replica, std::int32_t replicas) {
    std::vector<PipelineStep> steps;
    const auto step = [&](StepKind kind, std::int32_t number) {
      steps.push_back({kind, number * replicas + replica, stage});
    };
    const std::int32_t own = (shape.microbatches - replica + replicas - 1) / replicas;
    const std::int32_t ahead = std::min(ahead_of[static_cast<std::size_t>(stage)], own);
    for (std::int32_t n = 0; n < ahead; ++n) step(StepKind::Forward, n);
    for (std::int32_t n = 0; n < own; ++n) {
      if (n + ahead < own) step(StepKind::Forward, n + ahead);
      step(StepKind::Backward, n);
    }
    return steps;
  });
}

// Two forwards for each stage behind: while one microbatch is computed there, the next is on its way.
PipelineSchedule eager(const PipelineShape& shape) {
  std::vector<std::int32_t> ahead_of;
  for (std::int32_t stage = 0; stage < shape.devices; ++stage)
    ahead_of.push_back(2 * (shape.devices - stage - 1));
  return in_turn(shape, ahead_of);
}

}  // namespace

// A stage begins backward as soon as it can, so that it never holds more microbatches than there are stages
// from it on. Of several replicas each does so with those that it takes.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape) {
  std::vector<std::int32_t> all, ahead_of;
  for (std::int32_t device = 0; device < shape.devices; ++device) all.push_back(shape.replicas_of(device));
  for (std::int32_t stage = 0; stage < shape.devices; ++stage) ahead_of.push_back(warm_up(all, stage));
  return in_turn(shape, ahead_of);
}

ScheduleKind one_forward_one_backward_schedule() {
  return {"1f1b",
          "one forward, one backward in turn",
          "Fan et al. (DAPPLE), PPoPP 2021; Narayanan et al., SOSP 2019",
          false,
          suits_every_shape,
          one_forward_one_backward};
}

ScheduleKind eager_schedule() {
  return {"eager-1f1b",
          "1f1b in which each stage goes forward twice as far ahead, so that slow transfers overlap with "
          "compute; keeps up to twice as much",
          "Zhuang et al. (cross-mesh resharding), MLSys 2023, section 4",
          false,
          suits_every_shape,
          eager};
}

}  // namespace pipesim
