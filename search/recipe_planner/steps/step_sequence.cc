#include "search/recipe_planner/steps/step_sequence.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "taskgraph/plan/pipeline.h"

namespace pipesim {
namespace {

// Which steps have been listed, by stage and microbatch.
class ListedSteps {
 public:
  ListedSteps(std::int32_t stages, std::int32_t microbatches)
      : stages_(stages),
        microbatches_(static_cast<std::size_t>(microbatches)),
        forward_(static_cast<std::size_t>(stages) * microbatches_, false),
        backward_(forward_) {}

  // Whether what hands the step its data has been.
  [[nodiscard]] bool has_input_of(const PipelineStep& step) const {
    if (step.kind == StepKind::Forward) return step.stage == 0 || forward_[at(step) - microbatches_];
    return step.kind == StepKind::BackwardWeight || step.stage + 1 == stages_ ||
           backward_[at(step) + microbatches_];
  }
  void add(const PipelineStep& step) {
    if (step.kind != StepKind::BackwardWeight)
      (step.kind == StepKind::Forward ? forward_ : backward_)[at(step)] = true;
  }

 private:
  [[nodiscard]] std::size_t at(const PipelineStep& step) const {
    return static_cast<std::size_t>(step.stage) * microbatches_ + static_cast<std::size_t>(step.microbatch);
  }
  std::int32_t stages_;
  std::size_t microbatches_;
  std::vector<bool> forward_, backward_;
};

void list_steps(const PipelineSchedule& schedule, StepSequence& sequence) {
  std::size_t all = 0;
  for (const std::vector<PipelineStep>& steps : schedule) all += steps.size();
  sequence.steps.reserve(all);
  ListedSteps listed(sequence.stages, sequence.microbatches);
  std::vector<std::size_t> next(schedule.size(), 0);  // by group
  while (sequence.steps.size() < all) {
    const std::size_t before = sequence.steps.size();
    for (std::size_t group = 0; group < schedule.size(); ++group) {
      const std::vector<PipelineStep>& steps = schedule[group];
      for (std::size_t& i = next[group]; i < steps.size();) {
        const auto call = std::span(steps).subspan(i, steps_to_barrier(steps, i, 1));
        if (!std::ranges::all_of(call, [&](const PipelineStep& s) { return listed.has_input_of(s); })) break;
        for (const PipelineStep& step : call) {
          listed.add(step);
          sequence.steps.push_back(
              {step, static_cast<std::int32_t>(group), call.size() > 1 && &step == &call.front()});
        }
        i += call.size();
      }
    }
    if (sequence.steps.size() == before) throw std::logic_error("a schedule whose steps wait for each other");
  }
}

}  // namespace

const StepSequence& StepSequences::of(const std::string& schedule, std::int64_t groups,
                                      std::int64_t microbatches, std::int64_t chunks) {
  constexpr std::size_t kMostSteps = 10'000'000;
  const std::tuple key(schedule, groups, microbatches, chunks);
  const auto known = made_.find(key);
  if (known != made_.end()) return known->second;
  if (steps_ > kMostSteps) made_.clear(), steps_ = 0;
  const PipelineShape shape{static_cast<std::int32_t>(groups),
                            static_cast<std::int32_t>(microbatches),
                            static_cast<std::int32_t>(chunks),
                            0,
                            {}};
  const ScheduleKind& kind = schedule_kind(schedule);
  StepSequence made;
  made.groups = shape.devices;
  made.stages = shape.devices * shape.chunks;
  made.microbatches = shape.microbatches;
  made.both_ways = kind.both_ways;
  list_steps(make_schedule(schedule, shape), made);
  steps_ += made.steps.size();
  return made_.emplace(key, std::move(made)).first->second;
}

}  // namespace pipesim
