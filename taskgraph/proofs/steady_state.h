#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// A part of a timeline that repeats, several times in a row, in iterations of more microbatches.
struct SteadyWindow {
  Nanoseconds begin = 0, end = 0;
  std::int32_t microbatches = 1;  ///< by which the numbers of those at work grow from begin to end
  [[nodiscard]] Nanoseconds length() const { return end - begin; }
  bool operator==(const SteadyWindow&) const = default;
};

/// How the timeline of many microbatches follows from one of few: the windows are repeated, and all else is
/// the same. There is one window; or two, where all microbatches go forward before the first comes back: one
/// for forward, and one for backward, in which the numbers of microbatches fall.
struct SteadyState {
  std::int32_t repeats = 0;  ///< how often each window comes in addition
  std::vector<SteadyWindow> windows;
  /// Converts a moment of the iteration with few microbatches, such as its end, to the iteration with many. A
  /// moment inside a window is converted to its first repetition.
  [[nodiscard]] Nanoseconds time_of(Nanoseconds of_few) const;
};

/// A simulation of few microbatches, from which that of many is derived. A device may stand for all devices
/// like it.
struct FewMicrobatches {
  const TaskDag& dag;  ///< tasks of microbatches, one after the other, then tasks of none, then barriers
  const Timeline& timeline;
  std::int32_t few = 0, many = 0;
  std::size_t tasks_of_one = 0;   ///< of one microbatch, in the same order in each
  std::size_t first_barrier = 0;  ///< tasks before it are no barriers
  TaskId forward, backward;       ///< of the first microbatch: where it begins its way, and its way back
  std::vector<std::vector<TaskId>> barriers;  ///< by device, in the order of its steps
  PipelineOrder few_order, many_order;        ///< of the same devices
  /// Where weights change between microbatches (TaskBlock), all other members but the orders count blocks of
  /// this many microbatches, and the steady part begins with a microbatch that needs changed weights.
  std::int32_t of_block = 1, first_regular = 0;
  std::int32_t rhythm = 0;  ///< a period to look for beside the usual ones; 0: none
};

/// Describes a simulation of a strategy that was expanded with few microbatches, to derive that of `many`.
FewMicrobatches few_microbatches_of(const ExpandedStrategy& expanded, const Timeline& timeline,
                                    std::int32_t many);

/// Returns one device of each group and course of barriers: other devices of the group whose barriers end at
/// the same times are like it.
std::vector<std::size_t> devices_unlike_others(const FewMicrobatches& few);

/// Derives the timeline of all the plan's microbatches from that of a strategy expanded with few. Nothing
/// when this can't be proven, or when the plan has no more microbatches.
///
/// The proof. Say that a task is popped by a moment when it became ready before it. From a moment on, the
/// engine's actions depend only on which tasks are popped, when the running tasks end, when busy lanes become
/// free, and the rest of the graph. Microbatches have equal tasks, which wait for tasks of the same
/// microbatch and for barriers; the gate of a step also for what comes in for the step beside it. Barriers
/// stand in the order of the device's steps. Keys compare microbatches only among tasks of one kind, so
/// adding the same number to all microbatches changes no order. Assume:
///  1. at both ends of a window, a task of microbatch m is popped at the begin exactly when the same task
///     of m + u is popped at the end; the first u microbatches are done at the end; running tasks and lanes
///     end as long after;
///  2. only tasks of microbatches and barriers are popped before the window ends;
///  3. with many microbatches the devices' steps are those with few, but the window's steps are repeated
///     with numbers that are u larger each time, and the steps after it have numbers that are larger by the
///     sum.
/// Then the simulation of many goes through the window again and again, and continues from its end as the one
/// of few does. With two windows, condition 1 holds in the first for forward tasks, while no others are
/// popped. In the second it holds, in falling order, for the other tasks, when all forward tasks have ended.
std::optional<SteadyState> find_steady_state(const ExpandedStrategy& few, const Timeline& timeline);
/// Finds the steady part of a schedule that changes weights while microbatches are under way, and so has no
/// end. The proof is from the timeline of the microbatches that were built. Counts blocks of microbatches.
std::optional<SteadyWindow> find_steady_stream(const ExpandedStrategy& few, const Timeline& timeline);
/// The same for any graph of this kind.
std::optional<SteadyState> find_steady_state(FewMicrobatches few);
/// A task with which the first microbatch begins its backward; invalid where it has none.
TaskId first_backward_task(const ExpandedStrategy& expanded);

/// Numbers of microbatches for find_steady_stream() to try, ascending.
std::vector<std::int32_t> stream_lengths(const PlanContents& contents, const BoundStrategy& strategy);
/// Numbers of microbatches to try, ascending. None where simulating all of the plan's microbatches costs
/// about as much.
std::vector<std::int32_t> few_microbatches(const PlanContents& contents, const BoundStrategy& strategy);
/// Returns a number of microbatches, more than were built, that may prove what few_microbatches() did not:
/// one that fits the period in which times between starts of the loss repeat, where those numbers do not. 0
/// where there is no such period, or where simulating all of the plan's microbatches costs about as much.
std::int32_t few_microbatches_in_rhythm(const ExpandedStrategy& few, const Timeline& timeline);
/// The least number of microbatches from n on that may be simulated instead of the plan's own.
std::int32_t few_microbatches_from(std::int32_t n, const PlanContents& contents,
                                   const BoundStrategy& strategy);

}  // namespace pipesim
