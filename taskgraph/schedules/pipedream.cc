#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// A stage takes a microbatch back with the weights that it took it forward with. Several stages of one device
// are a replay: microbatches one after the other, with the versions of weights that a pipeline would have.
PipelineSchedule build_asynchronous(const PipelineShape& shape) {
  if (shape.chunks == 1) return one_forward_one_backward(shape);
  std::vector<PipelineStep> steps;
  for (std::int32_t m = 0; m < shape.microbatches; ++m) {
    for (std::int32_t stage = 0; stage < shape.chunks; ++stage)
      steps.push_back({StepKind::Forward, m, stage});
    for (std::int32_t stage = shape.chunks; stage-- > 0;) steps.push_back({StepKind::Backward, m, stage});
  }
  return {steps};
}

std::int32_t one_behind(std::span<const std::int32_t>, std::int32_t) { return 1; }

ScheduleKind asynchronous(std::string_view name, std::string_view summary, std::string_view source,
                          WeightChange weights,
                          std::int32_t (*behind)(std::span<const std::int32_t>, std::int32_t)) {
  ScheduleKind kind{name, summary, source, false, suits_every_shape, build_asynchronous};
  kind.weights = weights;
  kind.versions_behind = behind;
  kind.takes_replicas = weights == WeightChange::AfterMicrobatch;
  return kind;
}

}  // namespace

ScheduleKind pipedream_schedule() {
  return asynchronous("pipedream", "continuous 1f1b; weights change after every microbatch and are stashed",
                      "Narayanan et al., SOSP 2019, section 3.3", WeightChange::AfterMicrobatch, warm_up);
}

ScheduleKind pipedream_vertical_sync_schedule() {
  ScheduleKind kind = asynchronous(
      "pipedream-vertical-sync", "the same, with one version of weights for a microbatch in all stages",
      "Narayanan et al., SOSP 2019, section 3.3", WeightChange::AfterMicrobatch, warm_up);
  kind.vertical_sync = true;
  return kind;
}

ScheduleKind double_buffered_schedule() {
  return asynchronous("2bw", "continuous 1f1b; weights change once an iteration and are kept twice",
                      "Narayanan et al., ICML 2021, section 3.1", WeightChange::BetweenIterations,
                      one_behind);
}

}  // namespace pipesim
