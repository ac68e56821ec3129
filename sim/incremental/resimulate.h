#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/incremental/editable_dag.h"
#include "sim/incremental/schedule.h"
#include "sim/ready_queue.h"

namespace pipesim {

/// Scratch memory of resimulate(), kept by the caller so that the next run allocates nothing. Holds the
/// result until apply(). One per thread.
class Resimulation {
 public:
  /// The number of tasks that the last run simulated one by one; the times of the others were known.
  [[nodiscard]] std::size_t tasks_taken() const { return trace_.size(); }
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend std::optional<Nanoseconds> resimulate(const EditableDag&, const Schedule&,
                                               std::span<const Nanoseconds>, Nanoseconds, Resimulation&);
  friend void apply(Resimulation&, const EditableDag&, Schedule&);

  static constexpr std::int32_t kAffected = 1, kMissing = 2, kTaken = -2;
  static constexpr Nanoseconds kOpen = -1;
  /// A task that this run has come upon. Four are in a cache line, which is most of what a large graph costs.
  struct Visit {
    Nanoseconds time = 0;  ///< its end once it is taken, before that when it is ready by those taken
    std::uint32_t epoch = 0;
    /// kMissing for each predecessor not taken, or kTaken; + kAffected if the edit touches or removes it.
    std::int32_t state = 0;
  };
  struct Lane {
    Nanoseconds free = 0;
    Nanoseconds deadline = 0;  ///< for its next task to start: the limit − what its tasks will yet hold it
  };
  /// An affected task that has not been taken and waits for no added one.
  struct Candidate {
    TaskId task;
    std::uint32_t known_at = 0;  ///< the position from which on all its predecessors have been taken …
    Nanoseconds ready = 0;       ///< … and their largest end; both only before anything is taken
  };
  /// A part of the new order: tasks of the trace, or of the old order with all times shifted.
  struct Piece {
    std::size_t begin = 0, end = 0;
    bool known = false;
    Nanoseconds shift = 0;
    Nanoseconds latest_end = 0;
  };

  std::optional<Nanoseconds> run();
  std::optional<Nanoseconds> makespan();
  void reset(const EditableDag& dag, const Schedule& old, std::span<const Nanoseconds> loads,
             Nanoseconds limit);
  void mark_affected();
  Nanoseconds list_candidates();
  void look_at(TaskId task, Nanoseconds& earliest);
  Nanoseconds earliest_affected(Nanoseconds shift);
  [[nodiscard]] Nanoseconds latest_predecessor(TaskId task, Nanoseconds shift) const;
  [[nodiscard]] std::size_t first_removed(std::size_t from) const;
  [[nodiscard]] std::size_t position_before(Nanoseconds time, std::size_t from) const;
  void start_lanes();
  void restore(std::size_t position, Nanoseconds shift);
  void pass_known(std::size_t from, std::size_t to, Nanoseconds shift);
  void queue_candidates();
  void queue(TaskId task, Nanoseconds ready);
  void queue_known(TaskId task, Nanoseconds shift);

  [[nodiscard]] bool is_new(TaskId task) const { return task >= dag_->first_added(); }
  [[nodiscard]] bool is_taken(const Visit& v) const { return v.epoch >= first_epoch_ && v.state < 0; }
  [[nodiscard]] bool is_affected(const Visit& v) const {
    return v.epoch >= first_epoch_ && v.state & kAffected;
  }
  [[nodiscard]] static bool is_ready(const Visit& v) { return v.state < kMissing; }
  [[nodiscard]] Nanoseconds end_if_taken(TaskId task) const;
  [[nodiscard]] Nanoseconds end_if_known(TaskId task) const;
  Visit& visit(TaskId task);
  void look_back(TaskId task, Visit& v) const;
  void look_back_to_old(TaskId task, Visit& v) const;
  bool take(Nanoseconds ready, TaskId task);
  bool hold_lanes(const LaneUses& uses, Nanoseconds& start);
  bool hold_lane(LaneUse use, Nanoseconds start);
  bool lanes_in_time(Nanoseconds now);
  void release(TaskId task, Nanoseconds end);

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
  [[nodiscard]] bool all_taken() const;
  void list_order();
  void set_times(Schedule& schedule) const;

  const EditableDag* dag_ = nullptr;
  const Schedule* old_ = nullptr;
  std::span<const Nanoseconds> loads_;
  Nanoseconds limit_ = 0;
  std::vector<Visit> visits_;
  std::uint32_t epoch_ = 0, first_epoch_ = 1;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> removed_at_;  ///< positions
  ReadyQueue queue_;
  std::vector<Lane> lanes_;
  Nanoseconds first_deadline_ = 0;  ///< no lane's is earlier
  std::size_t first_checkpoint_ = 0;
  std::size_t base_ = 0;                      ///< old tasks before this position were taken, where they exist
  std::size_t boundary_ = 0;                  ///< next checkpoint's position
  std::size_t expected_ = 0;                  ///< so many old tasks from base_ lie before the boundary
  std::size_t old_taken_ = 0, furthest_ = 0;  ///< old tasks taken since base_; the largest position
  Nanoseconds makespan_ = 0;
  std::size_t start_ = 0;  ///< the position that the run began at
  std::vector<TaskId> trace_;
  std::vector<Nanoseconds> trace_ready_;
  std::size_t trace_closed_ = 0;  ///< so much of the trace is in pieces_
  std::vector<Piece> pieces_;
  std::vector<TaskId> new_causes_;  ///< unchanged tasks whose last predecessors may have become other ones
  std::vector<TaskId> order_;       ///< scratch of apply()
};

/// The makespan of the edited graph, given the schedule of the graph before the edit. Called between
/// EditableDag::finish() and keep() or undo(). The result is exactly that of simulate() on the same tasks.
/// Returns nothing as soon as the makespan is certain to exceed `limit`.
///
/// The run starts at the last moment before the edit can have an effect and takes tasks one by one from
/// there. At every checkpoint where the same tasks have been taken as before the edit, it compares its state
/// with the old one. If all times are the same, or all are later by the same shift, then everything up to the
/// next task that the edit touches has the same shift too. The run skips that part.
///
/// A lane that has work left must begin it by `limit` − that work, or the makespan exceeds the limit. Nothing
/// starts before the ready time of the task that is taken next, so the run stops when a lane's deadline lies
/// before that time. `loads`: by lane, the sum of the holds of the edited graph's tasks.
std::optional<Nanoseconds> resimulate(const EditableDag& dag, const Schedule& previous,
                                      std::span<const Nanoseconds> loads, Nanoseconds limit,
                                      Resimulation& scratch);

/// Turns `schedule`, the one that the last resimulate() was given, into the schedule of the edited graph.
/// Allowed only after resimulate() returned a makespan.
void apply(Resimulation& result, const EditableDag& dag, Schedule& schedule);

}  // namespace pipesim
