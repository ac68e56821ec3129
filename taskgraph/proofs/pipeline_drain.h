#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/expansion/folding.h"

namespace pipesim {

/// The last steps of every group of a pipeline's devices.
struct LastSteps {
  LastSteps() = default;
  LastSteps(PipelineOrder all, std::vector<std::size_t> from);
  std::vector<std::size_t> first;  ///< by group: the number of its first one
  PipelineOrder order;             ///< these steps alone, microbatches counted from first_microbatch
  std::int32_t first_microbatch = 0, microbatches = 0;  ///< from the first to the last that any of them is of
};

/// Simulates an iteration in two parts: the last steps under one folding, all earlier steps under a folding
/// with fewer devices (find_folding()). The last steps of a stage begin with the first step after which all
/// gradients of its weights exist and may be on their way. They also include other steps whose data use lanes
/// when such gradients are moved already.
///
/// The proof. A task is late when it belongs to a last step or waits for a task that does. Assume:
///  1. no task of an earlier step is late, and
///  2. on every lane, all tasks that are not late are popped (steady_state.h) before any late task.
/// Then the tasks that are not late run as if there were no others, so the folding of steps is right for
/// them. The late tasks run under the folding of all, from the times at which the devices have done their
/// earlier steps and the lanes are free.
class DrainSimulation {
 public:
  /// `steps`: the strategy of `of_steps`, expanded with that folding, and its timeline, in which the times of
  /// late tasks are ignored. All arguments must outlive this.
  DrainSimulation(const ExpandedStrategy& steps, const Folding& of_steps, const Folding& of_all,
                  const Timeline& timeline);

  /// The last steps and the range of their microbatches.
  [[nodiscard]] const LastSteps& last() const { return last_; }
  /// Expands and simulates the last steps under `of_all`: all tasks of their microbatches, and all tasks
  /// after them. False when the proof fails.
  bool run(ExpandedStrategy& last, SimulationScratch& scratch, Timeline& timeline);
  /// The makespan of the iteration, and the earliest time at which a late task was popped.
  [[nodiscard]] Nanoseconds makespan() const { return makespan_; }
  [[nodiscard]] Nanoseconds begin() const { return begin_; }

 private:
  bool look_at_steps();
  void begin_at(std::vector<std::size_t> first);
  [[nodiscard]] std::vector<Nanoseconds> first_synchronisation() const;
  void include_steps_from(Nanoseconds time, std::vector<std::size_t>& first) const;
  void note_lanes(const std::vector<Nanoseconds>& ready);
  [[nodiscard]] std::size_t step_number(std::int32_t microbatch, std::int32_t stage, std::size_t kind) const;
  [[nodiscard]] bool take_times(const ExpandedStrategy& last, const std::vector<bool>& late,
                                Timeline& timeline) const;
  [[nodiscard]] std::vector<std::int32_t> same_tasks(const ExpandedStrategy& last) const;
  [[nodiscard]] std::optional<std::vector<bool>> find_late(const ExpandedStrategy& expanded,
                                                           bool last_alone) const;
  template <class Visit>
  void visit_passes(const ExpandedStrategy& expanded, std::int32_t microbatch, std::int32_t expanded_as,
                    Visit visit) const;

  const PlanContents& contents_;
  const ExpandedStrategy& steps_;
  const Folding &of_steps_, &of_all_;
  const TaskDag& dag_;
  const Timeline& timeline_;
  PipelineOrder order_;
  LastSteps last_;
  std::vector<bool> is_last_;  // by microbatch, stage and kind of step: of inputs and weights apart
  std::size_t of_one_;
  std::vector<std::vector<TaskId>> barriers_;  // by device
  // By lane under of_steps: when its last task that is not late was popped, and when such tasks leave the
  // lane free.
  std::vector<Nanoseconds> last_pop_, lane_free_;
  bool proven_ = false;
  std::vector<bool> late_in_steps_;
  Nanoseconds makespan_ = 0, begin_ = 0;
};

}  // namespace pipesim
