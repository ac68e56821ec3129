#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// Built as it would run if all steps took equally long and transfers no time. A device goes forward as far as
// its memory allows: as many stages' activations as there are stages, which are as many microbatches of its
// two stages as there are devices. Then every backward is followed by the weight gradients that free the
// memory of one stage, and these by forward, which takes it again. When nothing is left to go forward,
// weight gradients fill what would be bubbles.
class ZeroBubbleVBuilder {
 public:
  explicit ZeroBubbleVBuilder(const PipelineShape& shape)
      : devices_(shape.devices),
        microbatches_(shape.microbatches),
        now_(size(2 * devices_)),
        schedule_(size(devices_)) {}

  PipelineSchedule build() {
    std::int64_t left = 6 * std::int64_t{devices_} * microbatches_;
    while (left > 0) {
      before_ = now_;
      for (std::int32_t d = 0; d < devices_; ++d) {
        const std::optional<PipelineStep> step = next(d);
        if (!step) continue;
        take(d, *step);
        --left;
      }
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    std::int32_t forward = 0, input = 0, weight = 0;  // microbatches done
  };

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] const Stage& stage(std::int32_t s) const { return now_[size(s)]; }
  [[nodiscard]] const Stage& before(std::int32_t s) const { return before_[size(s)]; }
  [[nodiscard]] std::int32_t last_stage() const { return 2 * devices_ - 1; }

  void take(std::int32_t device, const PipelineStep& step) {
    Stage& of = now_[size(step.stage)];
    if (step.kind == StepKind::Forward) ++of.forward;
    if (step.kind == StepKind::BackwardInput) ++of.input;
    if (step.kind == StepKind::BackwardWeight) ++of.weight;
    schedule_[size(device)].push_back(step);
  }

  [[nodiscard]] std::optional<PipelineStep> next(std::int32_t device) const {
    const std::int32_t down = device, up = last_stage() - device;
    const std::vector<PipelineStep>& steps = schedule_[size(device)];
    if (!steps.empty() && stage(up).forward < microbatches_) {
      if (steps.back().kind == StepKind::BackwardInput) return next_weight(down, up);
      if (steps.back().kind == StepKind::BackwardWeight) {
        if (const auto forward = next_forward(down, up)) return forward;
      }
    }
    // What is nearer to the first stage lets more devices go on.
    for (const std::int32_t s : {down, up}) {
      if (input_is_ready(s)) return PipelineStep{StepKind::BackwardInput, stage(s).input, s};
    }
    if (const auto forward = next_forward(down, up)) return forward;
    return next_weight(down, up);
  }

  // On the way up where that is possible; on the way down not further ahead than the way down and up again is
  // long, so that memory is left for what comes up.
  [[nodiscard]] std::optional<PipelineStep> next_forward(std::int32_t down, std::int32_t up) const {
    const std::int32_t held = stage(down).forward - stage(down).weight + stage(up).forward - stage(up).weight;
    if (held == 2 * devices_) return std::nullopt;
    if (forward_is_ready(up)) return PipelineStep{StepKind::Forward, stage(up).forward, up};
    const bool near = stage(down).forward - stage(up).forward < up - down;
    if (near && forward_is_ready(down)) return PipelineStep{StepKind::Forward, stage(down).forward, down};
    return std::nullopt;
  }
  [[nodiscard]] bool forward_is_ready(std::int32_t s) const {
    const std::int32_t m = stage(s).forward;
    return m < microbatches_ && (s == 0 || before(s - 1).forward > m);
  }
  [[nodiscard]] bool input_is_ready(std::int32_t s) const {
    const std::int32_t m = stage(s).input;
    return before(s).forward > m && (s == last_stage() || before(s + 1).input > m);
  }

  // The oldest one.
  [[nodiscard]] std::optional<PipelineStep> next_weight(std::int32_t down, std::int32_t up) const {
    const bool any_down = stage(down).weight < stage(down).input, any_up = stage(up).weight < stage(up).input;
    if (!any_down && !any_up) return std::nullopt;
    const bool take_up = any_up && (!any_down || stage(up).weight <= stage(down).weight);
    const std::int32_t s = take_up ? up : down;
    return PipelineStep{StepKind::BackwardWeight, stage(s).weight, s};
  }

  std::int32_t devices_, microbatches_;
  std::vector<Stage> now_, before_;  // by stage: after this step of all devices, and before it
  PipelineSchedule schedule_;
};

PipelineSchedule build_zero_bubble_v(const PipelineShape& shape) { return ZeroBubbleVBuilder(shape).build(); }

}  // namespace

ScheduleKind zero_bubble_v_schedule() {
  ScheduleKind kind{
      "zb-v",
      "no bubbles where passes are even, given twice as many microbatches as devices and updates "
      "without waiting; two stages a device, in a V; keeps as much as zb-h1",
      "Qi et al. (Zero Bubble Pipeline Parallelism), ICLR 2024; Qi et al. (Pipeline Parallelism "
      "with Controllable Memory), NeurIPS 2024",
      true,
      refuse_all_but_two_chunks,
      build_zero_bubble_v};
  kind.in_v = true;
  return kind;
}

}  // namespace pipesim
