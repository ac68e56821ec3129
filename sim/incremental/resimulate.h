#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/incremental/editable_dag.h"
#include "sim/incremental/schedule.h"
#include "sim/ready_queue.h"

namespace pipesim {

/// What resimulate() needs while it runs, kept by the caller so that the next run allocates nothing, and what
/// it found out, until apply(). One per thread.
class Resimulation {
 public:
  /// Tasks taken by the last run one by one; the others were known.
  [[nodiscard]] std::size_t tasks_taken() const { return trace_.size(); }
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend std::optional<Nanoseconds> resimulate(const EditableDag&, const Schedule&,
                                               std::span<const Nanoseconds>, Nanoseconds, Resimulation&);
  friend void apply(Resimulation&, const EditableDag&, Schedule&);

  static constexpr std::int32_t kTaken = -1;
  /// A task that this run has come upon.
  struct Visit {
    std::uint32_t epoch = 0;
    std::int32_t missing = 0;    ///< predecessors that have not been taken, or kTaken
    std::uint32_t sequence = 0;  ///< when it was taken: its position in the new order
    TaskId critical{}, last{};
    Nanoseconds ready = 0;  ///< by the predecessors that have been taken
    Nanoseconds start = 0;
  };
  /// A part of the new order: tasks of the trace, or of the old order with all times shifted.
  struct Piece {
    std::size_t begin = 0, end = 0;
    bool known = false;
    Nanoseconds shift = 0;
    std::int64_t moved = 0;  ///< new position − old one
    Nanoseconds latest_end = 0;
  };
  struct Affected {
    TaskId task;
    Nanoseconds earliest = 0;  ///< when it can be ready, on the clock of the old timeline
  };
  /// An unchanged task whose last predecessors became other ones.
  struct NewCause {
    TaskId task, critical, last;
  };
  struct Taken {
    Nanoseconds end = 0;
    std::uint32_t sequence = 0;
  };

  std::optional<Nanoseconds> run();
  void reset(const EditableDag& dag, const Schedule& old, std::span<const Nanoseconds> loads,
             Nanoseconds limit);
  void list_affected();
  void bound_affected(Nanoseconds shift);
  bool bound(Affected& a, Nanoseconds shift);
  [[nodiscard]] Nanoseconds earliest_affected() const;
  [[nodiscard]] std::size_t first_removed(std::size_t from) const;
  [[nodiscard]] std::size_t checkpoint_before(Nanoseconds time, std::size_t position) const;
  void restore(std::size_t checkpoint, Nanoseconds shift);
  bool loads_exceed_limit() const;

  [[nodiscard]] bool is_new(TaskId task) const { return task >= dag_->first_added(); }
  [[nodiscard]] bool is_taken(const Visit& v) const { return v.epoch >= first_epoch_ && v.missing == kTaken; }
  [[nodiscard]] bool is_affected(TaskId task) const {
    return is_new(task) || affected_in_[task.index()] == first_epoch_;
  }
  [[nodiscard]] std::optional<Taken> taken(TaskId task) const;
  Visit& visit(TaskId task);
  bool take(Nanoseconds ready, TaskId task);
  bool hold_lanes(const LaneUses& uses, Nanoseconds ready, Nanoseconds& start);
  void release(TaskId before, TaskId after, Nanoseconds end);

  bool at_boundary();
  void next_boundary();
  [[nodiscard]] std::size_t boundary_checkpoint() const { return boundary_ / old_->spacing(); }
  bool follows_old(Nanoseconds& shift);
  bool open_tasks_follow(Nanoseconds& shift);
  [[nodiscard]] bool lanes_follow(Nanoseconds shift) const;
  [[nodiscard]] bool ends_follow(Nanoseconds shift) const;
  bool skip(Nanoseconds shift);
  void skip_to(std::size_t position, Nanoseconds shift);
  void close_trace();
  void list_order();

  const EditableDag* dag_ = nullptr;
  const Schedule* old_ = nullptr;
  std::span<const Nanoseconds> loads_;
  Nanoseconds limit_ = 0;
  std::vector<Visit> visits_;
  std::vector<std::uint32_t>
      affected_in_;  ///< by old task: the first_epoch_ of the run that it is affected in
  std::uint32_t epoch_ = 0, first_epoch_ = 1;
  std::vector<Affected> affected_;  ///< the touched tasks, then the added ones in the order of their ids
  std::vector<std::uint32_t> unbounded_;  ///< scratch of bound_affected
  ReadyQueue queue_;
  std::vector<Nanoseconds> lane_free_, lane_idle_;
  std::size_t first_checkpoint_ = 0;
  std::size_t base_ = 0;                      ///< old tasks before this position were taken, where they exist
  std::size_t boundary_ = 0;                  ///< next checkpoint's position
  std::size_t expected_ = 0;                  ///< so many old tasks from base_ lie before the boundary
  std::size_t old_taken_ = 0, furthest_ = 0;  ///< old tasks taken since base_; the largest position
  std::uint32_t sequence_ = 0;
  Nanoseconds makespan_ = 0;
  std::vector<TaskId> trace_;
  std::size_t trace_closed_ = 0;  ///< so much of the trace is in pieces_
  std::vector<Piece> pieces_;
  std::vector<NewCause> causes_;
  std::vector<TaskId> order_;  ///< scratch of apply()
};

/// The makespan of the edited graph (between EditableDag::finish() and keep() or undo()), given the schedule
/// of the graph before the edit: exactly what simulate() finds for the same tasks. Nothing as soon as it is
/// certain that it exceeds `limit`.
///
/// Goes back to the last checkpoint before the edit can have an effect and takes tasks one by one from there.
/// At every checkpoint where the same tasks have been taken as before the edit, the state is compared with
/// the old one. If all times are the same, or all are later by the same shift, then so is everything up to
/// the next task that the edit concerns, and that part is skipped. The makespan of a graph is at least each
/// lane's load plus its idle time so far, which is what `limit` is compared with all along.
/// `loads`: by lane, what the tasks of the edited graph hold it, added up.
std::optional<Nanoseconds> resimulate(const EditableDag& dag, const Schedule& previous,
                                      std::span<const Nanoseconds> loads, Nanoseconds limit,
                                      Resimulation& scratch);

/// Makes `schedule`, which the last resimulate() was given, that of the edited graph. Only after it returned
/// a makespan.
void apply(Resimulation& result, const EditableDag& dag, Schedule& schedule);

}  // namespace pipesim
