#include <algorithm>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// 1f1b in which weight gradients come later than the gradients of inputs, where a device would wait
// otherwise. `ahead_a_stage`: microbatches that go forward before the first comes back, for each stage
// behind; `late_a_stage`: microbatches by which weight gradients lag, for each stage before.
PipelineSchedule build(const PipelineShape& shape, std::int32_t ahead_a_stage, std::int32_t late_a_stage) {
  return schedule_of(shape, [&](std::int32_t stage) {
    std::vector<PipelineStep> steps;
    std::int32_t weights = 0;
    const auto add_weights = [&] { steps.push_back({StepKind::BackwardWeight, weights++, stage}); };
    const std::int32_t ahead = std::min(ahead_a_stage * (shape.devices - stage - 1), shape.microbatches);
    for (std::int32_t m = 0; m < ahead; ++m) steps.push_back({StepKind::Forward, m, stage});
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      if (m + ahead < shape.microbatches) steps.push_back({StepKind::Forward, m + ahead, stage});
      steps.push_back({StepKind::BackwardInput, m, stage});
      const bool more = m + ahead + 1 < shape.microbatches;  // goes forward next
      if (!more || m - weights >= late_a_stage * stage) add_weights();
    }
    while (weights < shape.microbatches) add_weights();
    return steps;
  });
}

PipelineSchedule build_h1(const PipelineShape& shape) { return build(shape, 1, 1); }
PipelineSchedule build_h2(const PipelineShape& shape) { return build(shape, 2, 2); }

constexpr const char* kSource = "Qi et al. (Zero Bubble Pipeline Parallelism), ICLR 2024";

}  // namespace

ScheduleKind zero_bubble_h1_schedule() {
  return {"zb-h1",
          "1f1b whose bubbles are filled with weight gradients; every stage keeps as much as the first stage "
          "of 1f1b",
          kSource,
          false,
          suits_every_shape,
          build_h1};
}

ScheduleKind zero_bubble_h2_schedule() {
  return {"zb-h2",
          "no bubbles where passes are even, given twice as many microbatches as stages and updates without "
          "waiting; keeps twice as much as zb-h1",
          kSource,
          false,
          suits_every_shape,
          build_h2};
}

}  // namespace pipesim
