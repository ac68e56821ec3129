#include "tools/interop/torchtitan/torchtitan_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "taskgraph/plan/pipeline.h"

namespace pipesim {
namespace {

bool splits_backward(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule, [](const std::vector<PipelineStep>& steps) {
    return std::ranges::any_of(steps,
                               [](const PipelineStep& step) { return step.kind == StepKind::BackwardInput; });
  });
}

char torchtitan_letter(StepKind kind) {
  switch (kind) {
    case StepKind::Forward:
      return 'F';
    case StepKind::Backward:
      return 'B';
    case StepKind::BackwardInput:
      return 'I';
    case StepKind::BackwardWeight:
      break;
  }
  return 'W';
}

}  // namespace

PipelineSchedule torchtitan_schedule_of(const FrameworkPlan& plan) {
  const Recipe& r = plan.recipe;
  PipelineShape shape;
  shape.devices = static_cast<std::int32_t>(r.pipeline);
  shape.microbatches = static_cast<std::int32_t>(plan.microbatches());
  shape.chunks = static_cast<std::int32_t>(r.chunks);
  return make_schedule(r.schedule_name(), shape);
}

// PyTorch refuses compiled modules where the gradients of inputs and of weights are steps of their own.
bool torchtitan_compiles(const FrameworkPlan& plan) {
  return plan.recipe.pipeline == 1 || !splits_backward(torchtitan_schedule_of(plan));
}

const char* torchtitan_schedule_name(const Recipe& recipe) {
  if (!recipe.in_v()) return "PipelineScheduleMulti";
  return recipe.schedule == kDualPipeV ? "DualPipeV" : "ZBVZeroBubble";
}

bool takes_torchtitan_steps(const Recipe& recipe) {
  return recipe.pipeline > 1 && recipe.schedule != kDualPipeV;
}

std::string torchtitan_schedule(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& steps : schedule) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      text += fmt::format("{}{}{}{}", i == 0 ? "" : ",", steps[i].stage, torchtitan_letter(steps[i].kind),
                          steps[i].microbatch);
    text += "\n";
  }
  return text;
}

}  // namespace pipesim
