#include "search/recipe_planner/schedule_shape.h"

#include <numeric>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {
namespace {

// Follows the steps of one group.
class GroupSteps {
 public:
  explicit GroupSteps(std::int64_t chunks)
      : now_{std::vector<std::int64_t>(static_cast<std::size_t>(chunks), 0),
             std::vector<std::int64_t>(static_cast<std::size_t>(chunks), 0)},
        none_(static_cast<std::size_t>(chunks), 0),
        behind_(none_) {}

  void add(const PipelineStep& step, std::size_t chunk) {
    switch (step.kind) {
      case StepKind::Forward:
        ++now_.before_input[chunk], ++now_.before_weight[chunk];
        behind_.clear();
        return;
      case StepKind::Backward:
      case StepKind::BackwardInput:
        look();
        --now_.before_input[chunk];
        if (step.kind == StepKind::Backward) --now_.before_weight[chunk];
        behind_ = chunk == 0 ? none_ : std::vector<std::int64_t>();
        return;
      case StepKind::BackwardWeight:
        look();
        --now_.before_weight[chunk];
        if (!behind_.empty()) ++behind_[chunk];
        return;
    }
  }
  [[nodiscard]] std::vector<ScheduleShape::Moment> moments() const { return {most_input_, most_weight_}; }
  [[nodiscard]] const std::vector<std::int64_t>& behind() const { return behind_; }

 private:
  static std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  }
  void look() {
    if (most_input_.before_input.empty() || sum_of(now_.before_input) > sum_of(most_input_.before_input))
      most_input_ = now_;
    if (most_weight_.before_weight.empty() || sum_of(now_.before_weight) > sum_of(most_weight_.before_weight))
      most_weight_ = now_;
  }

  ScheduleShape::Moment now_, most_input_, most_weight_;
  std::vector<std::int64_t> none_, behind_;  // see ScheduleShape::weight_steps_behind
};

ScheduleShape shape_of(const PipelineSchedule& schedule, std::int64_t groups, std::int64_t chunks) {
  ScheduleShape shape;
  for (const std::vector<PipelineStep>& of_group : schedule) {
    GroupSteps steps(chunks);
    for (const PipelineStep& step : of_group) {
      shape.splits_backward |= step.kind == StepKind::BackwardWeight;
      steps.add(step, static_cast<std::size_t>(step.stage / groups));
    }
    shape.moments.push_back(steps.moments());
    shape.weight_steps_behind.push_back(steps.behind());
  }
  return shape;
}

}  // namespace

const ScheduleShape& ScheduleShapes::of(const std::string& schedule, std::int64_t groups,
                                        std::int64_t microbatches, std::int64_t chunks) {
  const auto [at, fresh] = made_.try_emplace({schedule, groups, microbatches, chunks});
  if (!fresh) return at->second;
  if (groups == 1) {  // one microbatch after the other
    at->second.moments = {{{{1}, {1}}}};
    at->second.weight_steps_behind = {{0}};
    return at->second;
  }
  const PipelineShape asked{static_cast<std::int32_t>(groups),
                            static_cast<std::int32_t>(microbatches),
                            static_cast<std::int32_t>(chunks),
                            0,
                            {}};
  at->second = shape_of(make_schedule(schedule, asked), groups, chunks);
  return at->second;
}

}  // namespace pipesim
