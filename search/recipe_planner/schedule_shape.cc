#include "search/recipe_planner/schedule_shape.h"

#include <numeric>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {
namespace {

ScheduleShape shape_of(const PipelineSchedule& schedule, std::int64_t groups, std::int64_t chunks) {
  ScheduleShape shape;
  for (std::size_t g = 0; g < schedule.size(); ++g) {
    std::vector<std::int64_t> now(static_cast<std::size_t>(chunks), 0), most = now;
    std::int64_t all = 0, most_of_all = -1, behind = 0;
    for (const PipelineStep& step : schedule[g]) {
      std::int64_t& of_stage = now[static_cast<std::size_t>(step.stage / groups)];
      const bool of_first = step.stage == static_cast<std::int32_t>(g);
      switch (step.kind) {
        case StepKind::Forward:
          ++of_stage, ++all;
          behind = -1;
          break;
        case StepKind::Backward:
        case StepKind::BackwardInput:
          if (all > most_of_all) most_of_all = all, most = now;
          --of_stage, --all;
          behind = of_first ? 0 : -1;
          break;
        case StepKind::BackwardWeight:
          shape.splits_backward = true;
          if (behind >= 0) ++behind;
          break;
      }
    }
    shape.in_flight.push_back(std::move(most));
    shape.weight_steps_behind.push_back(behind);
  }
  return shape;
}

}  // namespace

const ScheduleShape& ScheduleShapes::of(const std::string& schedule, std::int64_t groups,
                                        std::int64_t microbatches, std::int64_t chunks) {
  const auto [at, fresh] = made_.try_emplace({schedule, groups, microbatches, chunks});
  if (!fresh) return at->second;
  if (groups == 1) {  // one microbatch after the other
    at->second.in_flight = {{1}};
    at->second.weight_steps_behind = {0};
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
