#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {

// One function for each file of this folder; schedule.cc lists them.
ScheduleKind gpipe_schedule();
ScheduleKind one_forward_one_backward_schedule();
ScheduleKind eager_schedule();
ScheduleKind interleaved_schedule();
ScheduleKind interleaved_groups_schedule();
ScheduleKind interleaved_beside_schedule();
ScheduleKind zero_bubble_h1_schedule();
ScheduleKind zero_bubble_h2_schedule();
ScheduleKind automatic_zero_bubble_schedule();
ScheduleKind zero_bubble_v_schedule();
ScheduleKind chimera_schedule();
ScheduleKind dual_pipe_schedule();
ScheduleKind dual_pipe_v_schedule();
ScheduleKind pipedream_schedule();
ScheduleKind pipedream_vertical_sync_schedule();
ScheduleKind double_buffered_schedule();
ScheduleKind inference_schedule();

/// The number of microbatches that a replica of a stage takes forward before the first comes back, including
/// that one, if there are that many. All replicas of this and the later stages are then busy: ⌈Σ replicas of
/// these stages / replicas of this stage⌉. At the first stage this is NOAM (Narayanan et al., SOSP 2019,
/// section 3.2). `replicas`: by stage.
std::int32_t warm_up(std::span<const std::int32_t> replicas, std::int32_t stage);

/// 1f1b, also for schedules that differ from it only in when weights change.
PipelineSchedule one_forward_one_backward(const PipelineShape& shape);

/// A schedule whose devices can be written down one by one: steps_of(device) gives the steps of each.
template <class StepsOf>
PipelineSchedule schedule_of(const PipelineShape& shape, StepsOf steps_of) {
  PipelineSchedule schedule;
  for (std::int32_t device = 0; device < shape.devices; ++device) schedule.push_back(steps_of(device));
  return schedule;
}

/// The same for schedules with replicas: steps_of(device, replica, replicas of the device) gives the steps of
/// each.
template <class StepsOf>
PipelineSchedule schedule_of_replicas(const PipelineShape& shape, StepsOf steps_of) {
  PipelineSchedule schedule;
  for (std::int32_t device = 0; device < shape.devices; ++device) {
    const std::int32_t replicas = shape.replicas_of(device);
    for (std::int32_t replica = 0; replica < replicas; ++replica)
      schedule.push_back(steps_of(device, replica, replicas));
  }
  return schedule;
}

/// For schedules that suit every shape.
inline std::string suits_every_shape(const PipelineShape&) { return ""; }

/// For schedules whose stages lie in a V (ScheduleKind::in_v).
std::string refuse_all_but_two_chunks(const PipelineShape& shape);

}  // namespace pipesim
