#pragma once

#include "taskgraph/schedules/schedule.h"

namespace pipesim {

// One for each file of this folder; schedule.cc lists them.
ScheduleKind gpipe_schedule();
ScheduleKind one_forward_one_backward_schedule();
ScheduleKind interleaved_schedule();
ScheduleKind zero_bubble_h1_schedule();
ScheduleKind zero_bubble_h2_schedule();
ScheduleKind automatic_zero_bubble_schedule();
ScheduleKind chimera_schedule();
ScheduleKind pipedream_schedule();
ScheduleKind pipedream_vertical_sync_schedule();
ScheduleKind double_buffered_schedule();
ScheduleKind inference_schedule();

/// Of 1f1b, and of those that differ from it in when weights change.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape);

/// Of schedules whose devices can be written down one by one: steps_of(device) gives the steps of each.
template <class StepsOf>
PipelineSchedule schedule_of(const PipelineShape& shape, StepsOf steps_of) {
  PipelineSchedule schedule;
  for (std::int32_t device = 0; device < shape.devices; ++device) schedule.push_back(steps_of(device));
  return schedule;
}

/// For schedules that suit every shape.
inline std::string suits_every_shape(const PipelineShape&) { return ""; }

}  // namespace pipesim
