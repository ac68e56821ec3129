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

// Microbatches that a stage has taken forward before the first comes back.
std::int32_t behind_by_those_ahead(std::int32_t stages, std::int32_t stage) { return stages - 1 - stage; }
// With vertical sync, those of the first stage: a microbatch meets the same version in all stages.
std::int32_t behind_as_the_first(std::int32_t stages, std::int32_t) { return stages - 1; }
std::int32_t one_behind(std::int32_t, std::int32_t) { return 1; }

ScheduleKind asynchronous(std::string_view name, std::string_view summary, std::string_view source,
                          WeightChange weights, std::int32_t (*behind)(std::int32_t, std::int32_t)) {
  return {name, summary, source, false, suits_every_shape, build_asynchronous, false, weights, behind};
}

}  // namespace

ScheduleKind pipedream_schedule() {
  return asynchronous("pipedream", "1f1b without end; weights change after every microbatch, and are stashed",
                      "Narayanan et al., SOSP 2019, section 3.3", WeightChange::AfterMicrobatch,
                      behind_by_those_ahead);
}

ScheduleKind pipedream_vertical_sync_schedule() {
  return asynchronous(
      "pipedream-vertical-sync", "the same; a microbatch meets the same version of weights in all stages",
      "Narayanan et al., SOSP 2019, section 3.3", WeightChange::AfterMicrobatch, behind_as_the_first);
}

ScheduleKind double_buffered_schedule() {
  return asynchronous("2bw", "1f1b without end; weights change once an iteration, and are kept twice",
                      "Narayanan et al., ICML 2021, section 3.1", WeightChange::BetweenIterations,
                      one_behind);
}

}  // namespace pipesim
