#include "search/recipe_planner/steps/schedule_shape.h"

#include <algorithm>
#include <map>
#include <utility>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {
namespace {

// Follows the steps of one group.
class GroupSteps {
 public:
  explicit GroupSteps(const std::vector<std::int64_t>& stages)
      : now_{std::vector<std::int64_t>(stages.size(), 0), std::vector<std::int64_t>(stages.size(), 0), {}} {
    for (const std::int64_t stage : stages) group_.steps.push_back({.stage = stage});
  }

  void follow(const std::vector<PipelineStep>& steps) {
    group_.first_stage = steps.front().stage;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool pair = i + 1 < steps.size() && steps[i + 1].beside;
      if (pair) {  // when backward begins, forward beside it may keep nothing yet
        pass(steps[i + 1]);
        pass(steps[i]);
        add_pair(number_of(steps[i]), number_of(steps[i + 1]));
        ++i;
      } else {
        pass(steps[i]);
        count(steps[i]);
      }
    }
    group_.moments = outermost(std::move(moments_));
  }
  [[nodiscard]] ScheduleShape::Group&& group() && { return std::move(group_); }

 private:
  // Among the stages of the group.
  [[nodiscard]] std::size_t number_of(const PipelineStep& step) const {
    return static_cast<std::size_t>(
        std::ranges::find(group_.steps, step.stage, &ScheduleShape::Steps::stage) - group_.steps.begin());
  }

  void pass(const PipelineStep& step) {
    const std::size_t at = number_of(step);
    if (step.kind == StepKind::Forward) {
      ++group_.steps[at].microbatches;
      ++now_.before_input[at], ++now_.before_weight[at];
      return;
    }
    now_.begins.reset();
    if (step.kind != StepKind::BackwardWeight) now_.begins = at;
    look();
    if (step.kind != StepKind::Backward)
      --(step.kind == StepKind::BackwardInput ? now_.before_input : now_.before_weight)[at];
    if (step.kind == StepKind::Backward) --now_.before_input[at], --now_.before_weight[at];
    if (step.kind == StepKind::BackwardWeight) {
      ++group_.steps[at].weight_behind;
      return;
    }
    group_.last_stage = step.stage;
    for (ScheduleShape::Steps& of_stage : group_.steps) of_stage.weight_behind = 0;
  }

  void count(const PipelineStep& step) {
    ScheduleShape::Steps& of_stage = group_.steps[number_of(step)];
    if (step.kind == StepKind::Forward) ++of_stage.forward;
    if (step.kind == StepKind::Backward) ++of_stage.backward;
    if (step.kind == StepKind::BackwardInput) ++of_stage.input;
    if (step.kind == StepKind::BackwardWeight) ++of_stage.weight;
  }

  void add_pair(std::size_t forward, std::size_t backward) {
    const auto known = std::ranges::find_if(group_.pairs, [&](const ScheduleShape::Pairs& p) {
      return p.forward == forward && p.backward == backward;
    });
    if (known == group_.pairs.end()) {
      group_.pairs.push_back({forward, backward, 1});
    } else {
      ++known->times;
    }
  }

  // How many wait for all of their backward, and how many for their weight gradients alone.
  struct Counts {
    std::int64_t input = 0, weight = 0;
  };
  static Counts counts_of(const ScheduleShape::Moment& moment) {
    Counts counts;
    for (std::size_t c = 0; c < moment.before_input.size(); ++c) {
      counts.input += moment.before_input[c];
      counts.weight += moment.before_weight[c] - moment.before_input[c];
    }
    return counts;
  }

  // Keeps, for each number of microbatches before their input, the first moment with most before their
  // weights.
  void look() {
    const Counts counts = counts_of(now_);
    const auto [known, fresh] = moments_.try_emplace(counts.input, now_);
    if (!fresh && counts_of(known->second).weight < counts.weight) known->second = now_;
  }

  // Whatever a microbatch of either kind keeps, most is kept at one of these: a corner of the hull of all.
  static std::vector<ScheduleShape::Moment> outermost(std::map<std::int64_t, ScheduleShape::Moment>&& all) {
    std::vector<ScheduleShape::Moment> corners;  // more and more weights, less and less input
    for (auto moment = all.rbegin(); moment != all.rend(); ++moment) {
      const Counts next = counts_of(moment->second);
      if (!corners.empty() && next.weight <= counts_of(corners.back()).weight) continue;
      while (corners.size() >= 2) {
        const Counts a = counts_of(corners[corners.size() - 2]), b = counts_of(corners.back());
        if ((b.weight - a.weight) * (b.input - next.input) > (next.weight - b.weight) * (a.input - b.input))
          break;
        corners.pop_back();
      }
      corners.push_back(std::move(moment->second));
    }
    return corners;
  }

  ScheduleShape::Group group_;
  ScheduleShape::Moment now_;
  std::map<std::int64_t, ScheduleShape::Moment> moments_;  // by how many are before their input
};

ScheduleShape shape_of(const PipelineSchedule& schedule, const ScheduleKind& kind, std::int64_t chunks) {
  ScheduleShape shape;
  shape.both_ways = kind.both_ways;
  const auto groups = static_cast<std::int64_t>(schedule.size());
  for (std::int64_t group = 0; group < groups; ++group) {
    std::vector<std::int64_t> stages;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      stages.push_back(stage_of_chunk(group, chunk, groups, kind.in_v));
    if (kind.both_ways) stages.push_back(groups - 1 - group);
    const std::vector<PipelineStep>& steps = schedule[static_cast<std::size_t>(group)];
    GroupSteps followed(stages);
    followed.follow(steps);
    shape.groups.push_back(std::move(followed).group());
    shape.splits_backward |= std::ranges::any_of(
        steps, [](const PipelineStep& step) { return step.kind == StepKind::BackwardWeight; });
  }
  return shape;
}

}  // namespace

const ScheduleShape& ScheduleShapes::of(const std::string& schedule, std::int64_t groups,
                                        std::int64_t microbatches, std::int64_t chunks) {
  const auto [at, fresh] = made_.try_emplace({schedule, groups, microbatches, chunks});
  if (!fresh) return at->second;
  if (groups == 1) {  // one microbatch after the other
    ScheduleShape::Group alone;
    alone.steps = {
        {.stage = 0, .microbatches = microbatches, .forward = microbatches, .backward = microbatches}};
    alone.moments = {{{1}, {1}, 0}};
    at->second.groups = {alone};
    return at->second;
  }
  const PipelineShape asked{static_cast<std::int32_t>(groups),
                            static_cast<std::int32_t>(microbatches),
                            static_cast<std::int32_t>(chunks),
                            0,
                            {}};
  const ScheduleKind& kind = schedule_kind(schedule);
  at->second = shape_of(make_schedule(schedule, asked), kind, chunks);
  return at->second;
}

}  // namespace pipesim
