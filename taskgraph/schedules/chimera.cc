#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "sim/base/suggest.h"
#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

std::string refuse_chimera(const PipelineShape& shape) {
  if (shape.devices % 2 == 0 || shape.chunks > 1) return "";
  return fmt::format("found {}, allowed: an even number, like {}", counted(shape.devices, "stage"),
                     shape.devices + 1);
}

// Two pipelines of all stages through the same devices, one down and one up, each with its own copy of the
// weights: device d has stage d for even microbatches and stage devices − 1 − d for odd ones. Built as it
// would run if backward took twice as long as forward: backward first, then the older microbatch, then what
// has less of its way left.
class ChimeraBuilder {
 public:
  explicit ChimeraBuilder(const PipelineShape& shape)
      : devices_(shape.devices), microbatches_(shape.microbatches), schedule_(size(devices_)) {
    for (Pipeline& p : pipelines_) {
      p.forward.resize(size(devices_));
      p.backward.resize(size(devices_));
    }
  }

  static constexpr std::int64_t kForward = 1, kBackward = 2;

  PipelineSchedule build() {
    std::vector<std::int64_t> free(size(devices_), 0);
    std::int64_t left = 2 * std::int64_t{devices_} * microbatches_;
    for (std::int64_t now = 0; left > 0; ++now) {
      for (std::int32_t d = 0; d < devices_; ++d) {
        if (free[size(d)] > now) continue;
        const std::optional<PipelineStep> step = next(d, now);
        if (!step) continue;
        const bool forward = step->kind == StepKind::Forward;
        free[size(d)] = now + (forward ? kForward : kBackward);
        Pipeline& p = pipelines_[size(step->microbatch % 2)];
        (forward ? p.forward : p.backward)[size(step->stage)].push_back(free[size(d)]);
        schedule_[size(d)].push_back(*step);
        --left;
      }
    }
    return std::move(schedule_);
  }

 private:
  struct Pipeline {
    std::vector<std::vector<std::int64_t>> forward, backward;  // by stage: when its microbatches were done
  };

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  static bool done(const std::vector<std::int64_t>& ends, std::size_t number, std::int64_t now) {
    return ends.size() > number && ends[number] <= now;
  }

  std::optional<PipelineStep> next(std::int32_t device, std::int64_t now) const {
    std::optional<PipelineStep> best;
    for (const std::int32_t pipeline : {0, 1}) {
      const std::int32_t stage = pipeline == 0 ? device : devices_ - 1 - device;
      for (const StepKind kind : {StepKind::Backward, StepKind::Forward}) {
        const std::optional<PipelineStep> step = ready(pipeline, stage, kind, now);
        if (step && (!best || comes_before(*step, *best))) best = step;
      }
    }
    return best;
  }

  static bool comes_before(const PipelineStep& a, const PipelineStep& b) {
    const bool a_forward = a.kind == StepKind::Forward, b_forward = b.kind == StepKind::Forward;
    if (a_forward != b_forward) return b_forward;
    if (a.microbatch / 2 != b.microbatch / 2) return a.microbatch < b.microbatch;
    return a_forward ? a.stage > b.stage : a.stage < b.stage;
  }

  // The next of its kind, if it can begin now and there are not too many on the way.
  std::optional<PipelineStep> ready(std::int32_t pipeline, std::int32_t stage, StepKind kind,
                                    std::int64_t now) const {
    const Pipeline& p = pipelines_[size(pipeline)];
    const bool forward = kind == StepKind::Forward;
    const std::size_t number = (forward ? p.forward : p.backward)[size(stage)].size();
    const std::int32_t microbatch = 2 * static_cast<std::int32_t>(number) + pipeline;
    if (microbatch >= microbatches_) return std::nullopt;
    if (forward) {
      const std::size_t most = size(std::min(devices_ - stage, devices_ / 2));
      if (number - p.backward[size(stage)].size() >= most) return std::nullopt;
      if (stage > 0 && !done(p.forward[size(stage - 1)], number, now)) return std::nullopt;
    } else {
      if (!done(p.forward[size(stage)], number, now)) return std::nullopt;
      if (stage + 1 < devices_ && !done(p.backward[size(stage + 1)], number, now)) return std::nullopt;
    }
    return PipelineStep{kind, microbatch, stage};
  }

  std::int32_t devices_, microbatches_;
  std::array<Pipeline, 2> pipelines_;
  PipelineSchedule schedule_;
};

// When the last device is done, with the passes' times above.
std::int64_t makespan(const PipelineSchedule& schedule) {
  std::map<std::tuple<StepKind, std::int32_t, std::int32_t>, std::int64_t>
      ends;  // by kind, microbatch, stage
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<std::int64_t> free(schedule.size(), 0);
  const auto last_stage = static_cast<std::int32_t>(schedule.size()) - 1;
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t d = 0; d < schedule.size(); ++d) {
      for (; next[d] < schedule[d].size(); ++next[d], moves = true) {
        const PipelineStep& step = schedule[d][next[d]];
        const bool forward = step.kind == StepKind::Forward;
        const bool turns = !forward && step.stage == last_stage;
        const std::int32_t from = forward ? step.stage - 1 : turns ? step.stage : step.stage + 1;
        std::int64_t begin = free[d];
        if (from >= 0) {
          const auto before = ends.find({turns ? StepKind::Forward : step.kind, step.microbatch, from});
          if (before == ends.end()) break;
          begin = std::max(begin, before->second);
        }
        free[d] = begin + (forward ? ChimeraBuilder::kForward : ChimeraBuilder::kBackward);
        ends[{step.kind, step.microbatch, step.stage}] = free[d];
      }
    }
  }
  return std::ranges::max(free);
}

// Runs units of as many microbatches as devices one after the other: the next fills what one leaves free at
// its end (section 3.2 of the paper).
PipelineSchedule units_in_turn(const PipelineShape& shape) {
  PipelineSchedule all(static_cast<std::size_t>(shape.devices));
  for (std::int32_t first = 0; first < shape.microbatches; first += shape.devices) {
    PipelineShape unit = shape;
    unit.microbatches = std::min(shape.devices, shape.microbatches - first);
    const PipelineSchedule steps = ChimeraBuilder(unit).build();
    for (std::size_t d = 0; d < all.size(); ++d) {
      for (PipelineStep step : steps[d]) {
        step.microbatch += first;
        all[d].push_back(step);
      }
    }
  }
  return all;
}

// With more microbatches than devices, takes the schedule that ends first.
PipelineSchedule build_chimera(const PipelineShape& shape) {
  PipelineSchedule at_once = ChimeraBuilder(shape).build();
  if (shape.microbatches <= shape.devices) return at_once;
  PipelineSchedule in_turn = units_in_turn(shape);
  return makespan(in_turn) < makespan(at_once) ? in_turn : at_once;
}

}  // namespace

ScheduleKind chimera_schedule() {
  return {"chimera",
          "two pipelines in opposite directions, with two copies of the weights",
          "Li and Hoefler, SC 2021",
          false,
          refuse_chimera,
          build_chimera,
          {},
          WeightChange::AfterIteration,
          nullptr,
          true};
}

}  // namespace pipesim
