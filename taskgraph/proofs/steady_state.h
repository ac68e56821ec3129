#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/timeline.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// A part of a timeline that iterations of more microbatches have several times in a row.
struct SteadyWindow {
  Nanoseconds begin = 0, end = 0;
  std::int32_t microbatches = 1;  ///< by which the numbers of those at work grow from begin to end
  [[nodiscard]] Nanoseconds length() const { return end - begin; }
  bool operator==(const SteadyWindow&) const = default;
};

/// How an iteration of many microbatches follows from the timeline of one with few: the windows are repeated,
/// all else is the same. There is one window, or, where all microbatches go forward before the first comes
/// back, one for each way; in the second the numbers fall.
struct SteadyState {
  std::int32_t repeats = 0;  ///< how often each window comes in addition
  std::vector<SteadyWindow> windows;
  /// `of_few`: a moment of the iteration with few microbatches, like its end; where it first comes in the
  /// iteration with many, when the first time counts for each window.
  [[nodiscard]] Nanoseconds time_of(Nanoseconds of_few) const;
};

/// Few microbatches that were simulated, for many. A device may stand for all that are like it.
struct FewMicrobatches {
  const TaskDag& dag;  ///< tasks of microbatches, one after the other, then tasks of none, then barriers
  const Timeline& timeline;
  std::int32_t few = 0, many = 0;
  std::size_t tasks_of_one = 0;   ///< of one microbatch, in the same order in each
  std::size_t first_barrier = 0;  ///< tasks before it are no barriers
  TaskId forward, backward;       ///< of the first microbatch: where it begins its way, and its way back
  std::vector<std::vector<TaskId>> barriers;  ///< by device, in the order of its steps
  PipelineOrder few_order, many_order;        ///< of the same devices
  /// Where changes of weights stand among microbatches (TaskBlock), blocks of so many are meant by
  /// "microbatch" in all but the orders; and what is steady begins with a microbatch that needs changed
  /// weights.
  std::int32_t of_block = 1, first_regular = 0;
};

/// Proves from the timeline of a strategy that is expanded with few microbatches how the one of all the
/// plan's microbatches goes; nothing where that can't be proven, or there are no more.
///
/// What is proven. Let a task be popped by a moment when it became ready before it. From a moment on, all
/// that the engine does depends on which tasks are popped, when those end that have not ended, when lanes
/// become free that are not, and on what is left of the graph. Microbatches have equal tasks, which wait for
/// tasks of the same one, and for barriers, which stand in the order of the device's steps; keys compare
/// microbatches only among tasks of one kind, so adding the same to all of them changes no order. Hence, when
///  1. at both ends of a window every task of microbatch m is popped at its begin just if that of m + u is at
///     its end, the first u microbatches are done there, and those that run, and lanes, end as long after;
///  2. nothing but tasks of microbatches and barriers is popped before the window ends;
///  3. the devices' steps with many microbatches are those with few, the window's steps repeated with numbers
///     that are u larger each time, and those after it with numbers that are larger by the sum,
/// then the simulation of many goes through the window again and again, and on from its end as from there.
/// With two windows, 1 holds in the first for forward tasks while no others are popped, in the second, in
/// falling order, for those others while all forward tasks have ended.
std::optional<SteadyState> find_steady_state(const ExpandedStrategy& few, const Timeline& timeline);
/// Of a schedule that changes weights while microbatches are under way: what goes on without end, proven from
/// the timeline of those that were built. Blocks of microbatches count.
std::optional<SteadyWindow> find_steady_stream(const ExpandedStrategy& few, const Timeline& timeline);
/// The same of any graph of this kind.
std::optional<SteadyState> find_steady_state(FewMicrobatches few);
/// A task of the first microbatch with which it begins its way back; invalid where it has none.
TaskId first_backward_task(const ExpandedStrategy& expanded);

/// Numbers of microbatches for find_steady_stream() to try, ascending.
std::vector<std::int32_t> stream_lengths(const PlanContents& contents, const BoundStrategy& strategy);
/// Numbers of microbatches to try, ascending; none where simulating all of them costs about as much.
std::vector<std::int32_t> few_microbatches(const PlanContents& contents, const BoundStrategy& strategy);

}  // namespace pipesim
